// SPDX-License-Identifier: Apache-2.0
// The curves of one job: what they share is the axis, the zoom and the place that is pointed at.

import { Problem, paths, read } from "../api.js";
import { announce, el, put, say } from "../dom.js";
import { clock, counted, secondsOf, sentence } from "../format.js";
import { Chart } from "./chart.js";
import { Series, after } from "./series.js";

/** So many charts at first; a report may have 256 metrics. */
const FIRST = 12;
const DRAW_MS = 250;

export class Curves {
  #job;
  #charts = new Map();
  #seen = new Set();
  #timer = 0;
  #all = false;
  #loss = null;
  #wanted = true;
  #busy = false;
  /** A reading is to begin; also after the one that is on its way, which may be too early. */
  #again = false;
  #held = [];
  #abort = new AbortController();
  #observer;
  series = new Series();
  by = "time";
  logarithmic = false;
  range = null;

  #keep;
  /** Null: all of them. */
  attempt = null;

  /**
   * @param asked what the address asks for
   * @param keep called with what is chosen, for the address
   */
  constructor(job, asked, keep) {
    this.#job = job;
    this.#keep = keep;
    this.by = asked.by;
    this.logarithmic = asked.logarithmic;
    this.range = asked.range;
    this.attempt = asked.attempt;
    this.grid = el("div.charts");
    this.note = el("p.note.muted", { hidden: true });
    this.band = el("p.note.muted", { hidden: true }, "A band is from the lowest to the highest value that the training passed since the point before.");
    this.none = el("p.none.muted");
    const choice = (name, value, title) => {
      const button = el("button.button", { type: "button", "aria-pressed": String(this[name] === value), onclick: () => this.#choose(name, value) }, title);
      button.choice = [name, value];
      return button;
    };
    this.buttons = [choice("by", "time", "Time"), choice("by", "step", "Step")];
    this.log = el("button.button", { type: "button", "aria-pressed": String(this.logarithmic), onclick: () => this.#choose("logarithmic", !this.logarithmic) }, "Log scale");
    this.whole = el("button.button", { type: "button", disabled: this.range === null, onclick: () => this.zoom(null) }, "Whole run");
    this.more = el("button.button", { type: "button", hidden: true, onclick: () => this.#showAll() });
    this.tools = el(
      "div.panel-tools",
      {},
      el("div.choices", { role: "group", "aria-label": "Horizontal axis" }, ...this.buttons),
      this.log,
      this.whole,
    );
    this.node = el(
      "section.panel",
      { "aria-labelledby": "curves-title" },
      el("div.panel-head", {}, el("h2", { id: "curves-title" }, "Curves"), this.tools),
      this.none,
      this.grid,
      this.more,
      this.band,
      this.note,
    );
    // Charts that are not seen are not drawn.
    this.#observer = new IntersectionObserver((entries) => this.#watch(entries), { rootMargin: "300px" });
    addEventListener("theme", this.#theme);
  }

  /** The address asks for something else. */
  ask({ by, logarithmic, range, attempt }) {
    Object.assign(this, { by, logarithmic, attempt });
    this.#showChoices();
    this.zoom(range, false);
    this.#draw();
  }

  close() {
    this.#abort.abort();
    this.#observer.disconnect();
    clearTimeout(this.#timer);
    removeEventListener("theme", this.#theme);
    for (const chart of this.#charts.values()) chart.close();
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
      if (error.name === "AbortError") return;
      if (!(error instanceof Problem)) throw error;
      this.#wanted = true;
      this.note.hidden = false;
      say(this.note, error.message);
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
    const names = this.series.names(this.#loss, this.attempt);
    const shown = this.#all ? names : names.slice(0, FIRST);
    this.none.hidden = names.length > 0;
    this.tools.hidden = names.length === 0;
    this.buttons[1].hidden = !this.series.hasSteps;
    this.band.hidden = !this.series.hasBand;
    for (const [name, chart] of this.#charts) {
      if (!shown.includes(name)) {
        chart.close();
        this.#charts.delete(name);
      }
    }
    shown.forEach((name, place) => {
      if (!this.#charts.has(name)) {
        const chart = new Chart(name, this, place);
        chart.node.dataset.metric = name;
        this.#charts.set(name, chart);
        this.#observer.observe(chart.node);
      }
      const chart = this.#charts.get(name);
      if (this.grid.children[place] !== chart.node) this.grid.insertBefore(chart.node, this.grid.children[place] ?? null);
      if (this.#seen.has(chart.node)) chart.draw();
    });
    this.more.hidden = shown.length === names.length;
    say(this.more, `Show all ${counted(names.length, "curve")}`);
  }

  #watch(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#seen.add(target);
      else this.#seen.delete(target);
      const chart = [...this.#charts.values()].find(({ node }) => node === target);
      if (isIntersecting) chart?.draw();
    }
  }

  #showAll() {
    this.#all = true;
    this.#draw();
    this.#charts.get(this.series.names(this.#loss)[FIRST])?.node.querySelector("[tabindex]").focus();
  }

  #choose(name, value) {
    this[name] = value;
    if (name === "by") this.range = null;
    this.#showChoices();
    this.#keep({ by: this.by, logarithmic: this.logarithmic });
    this.zoom(this.range);
    this.#draw();
  }

  #showChoices() {
    for (const button of this.buttons) put(button, "aria-pressed", String(this[button.choice[0]] === button.choice[1]));
    put(this.log, "aria-pressed", String(this.logarithmic));
  }

  #theme = () => {
    for (const chart of this.#charts.values()) if (this.#seen.has(chart.node)) chart.reshape();
  };

  /** Show a range of the horizontal axis in all charts; null: all of it. */
  zoom(range, keep = true) {
    const was = this.range;
    this.range = range;
    if (keep) this.#keep({ range });
    this.whole.disabled = range === null;
    for (const chart of this.#charts.values()) chart.range();
    if (range === null && was !== null) announce("The whole run is shown");
  }

  /** A chart is pointed at: the others show the same place. */
  point(x, from) {
    for (const chart of this.#charts.values()) if (chart !== from && this.#seen.has(chart.node)) chart.point(x);
  }
}
