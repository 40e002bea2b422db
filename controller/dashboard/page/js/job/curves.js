// SPDX-License-Identifier: Apache-2.0
// The curves of one job: what they share is the axis, the zoom and the place that is pointed at.

import { paths, problemIn, read } from "../api.js";
import { Charts } from "../charts/charts.js";
import { el, panel, say } from "../dom.js";
import { clock, counted, secondsOf, sentence } from "../format.js";
import { JobChart } from "./chart.js";
import { Series, after } from "./series.js";

const DRAW_MS = 250;

export class Curves {
  #job;
  #timer = 0;
  #loss = null;
  #wanted = true;
  #busy = false;
  /** A reading is to begin; also after the one that is on its way, which may be too early. */
  #again = false;
  #held = [];
  #abort = new AbortController();
  #keep;
  series = new Series();

  /**
   * @param asked what the address asks for
   * @param keep called with what is chosen, for the address
   */
  constructor(job, asked, keep) {
    this.#job = job;
    this.#keep = keep;
    const { by, logarithmic, smooth, attempt } = asked;
    Object.assign(this, { by, logarithmic, smooth, attempt });
    const make = (name, size, place, charts) => new JobChart(name, this, size, place, charts);
    this.charts = new Charts(make, ["time", "step"], "run", (part) => this.#choose(part), (range) => keep({ range }));
    this.charts.range = asked.range;
    this.charts.whole.disabled = asked.range === null;
    this.charts.showChoice(this, true);
    this.note = el("p.note.muted", { hidden: true });
    this.band = el("p.note.muted", { hidden: true }, "A band is from the lowest to the highest value that the training passed since the point before.");
    this.none = el("p.none.muted");
    this.tools = el("div.panel-tools", {}, ...this.charts.tools);
    this.node = panel("curves", "Curves", [this.tools], this.none, this.charts.grid, this.charts.more, this.charts.hidden, this.band, this.note);
  }

  /** The address asks for something else. */
  ask({ by, logarithmic, smooth, range, attempt }) {
    Object.assign(this, { by, logarithmic, smooth, attempt });
    this.charts.zoom(range);
    this.#draw();
  }

  close() {
    this.#abort.abort();
    clearTimeout(this.#timer);
    this.charts.close();
  }

  /** The job was read, or read again after a break: reports may have been missed. */
  refresh(row) {
    this.#loss = row.loss?.metric ?? null;
    const over = row.state === "Complete" || row.state === "Failed";
    if (this.series.isOver !== over) {
      this.series.isOver = over;
      this.#later();
    }
    say(this.none, over ? "No report with numbers was seen." : "No report with numbers has come yet. Curves appear with the first one.");
    if (row.uid !== this.series.uid) this.#wanted = true;
    if (this.#wanted) this.#load();
  }

  /** The next picture of the job must be followed by a new reading. */
  forget() {
    this.#wanted = true;
  }

  append(points) {
    if (points.replace) this.#load();
    else if (this.#busy) this.#held.push(points);
    else if (points.uid === this.series.uid) this.#append(points);
  }

  #append(points) {
    // The series may have reports that were sent at the same time.
    const more = after(points, this.series.number);
    if (!more.times.length) return;
    this.series.append(more);
    this.#later();
  }

  async #load() {
    this.#wanted = false;
    this.#again = true;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#again) {
        this.#again = false;
        const answer = await read(`${paths.job(this.#job)}/series`, this.#abort.signal);
        this.series.take(answer.points);
        this.#tell(answer);
        for (const points of this.#held.splice(0)) if (points.uid === this.series.uid) this.#append(points);
        this.#draw();
      }
    } catch (error) {
      const problem = problemIn(error);
      if (problem === null) return;
      this.#wanted = true;
      this.note.hidden = false;
      say(this.note, problem.message);
    } finally {
      this.#busy = false;
    }
  }

  #tell(answer) {
    const since = secondsOf(answer.since);
    const joined = answer.joined > 1 ? `Each point stands for up to ${counted(answer.joined, "report")}.` : "";
    const isPart = !answer.recorded && since !== null && this.series.times.length;
    const began = isPart ? `Reports since ${clock(since)}, when this dashboard was started.` : "";
    say(this.note, [answer.unread ? sentence(answer.unread) : began, joined].filter(Boolean).join(" "));
    this.note.hidden = !this.note.textContent;
  }

  #later() {
    if (!this.#timer) this.#timer = setTimeout(() => this.#draw(), DRAW_MS);
  }

  #draw() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const shown = this.series.shown(this.#loss, this.attempt);
    this.none.hidden = shown.length > 0;
    this.tools.hidden = shown.length === 0;
    this.charts.showChoice(this, this.series.hasSteps);
    this.band.hidden = !this.series.hasBand;
    this.charts.show(shown);
  }

  #choose(part) {
    Object.assign(this, part);
    this.#keep(part);
    if ("by" in part) this.charts.zoom(null);
    this.#draw();
  }
}
