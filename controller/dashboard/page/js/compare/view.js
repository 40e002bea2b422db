// SPDX-License-Identifier: Apache-2.0
// Jobs beside each other: their curves, the parameters that differ, last and best values.

import { Problem, Stream, paths, problemIn, read } from "../api.js";
import { announce, el, emptyText, fill, panel, put, say } from "../dom.js";
import { counted, sentence } from "../format.js";
import { chosen } from "../jobs/chosen.js";
import { hrefOf as jobHref } from "../jobs/row.js";
import { keyOf } from "../jobs/selection.js";
import { listAddress } from "../jobs/view.js";
import { Charts } from "../charts/charts.js";
import { CompareChart } from "./chart.js";
import { metricsOf } from "./lines.js";
import { MOST, PLAIN, format, parse } from "./selection.js";
import { swatch } from "./styles.js";
import { CompareTable } from "./table.js";

/** Running jobs report often; they are read again not more often than this. */
const AGAIN_MS = 2000;

export class CompareView {
  #shell;
  #selection;
  #comparison = null;
  #points = new Map();
  #stale = new Set();
  #timer = 0;
  #busy = false;
  #abort = new AbortController();

  /** @param shell what `main.js` offers: `connection(connection)`, `link(state, detail)`, `where(cluster)` */
  constructor(root, query, shell) {
    this.#shell = shell;
    this.#selection = parse(query);
    this.#build(root);
    this.#showChoice();
    this.stream = new Stream(
      `${paths.jobs()}/stream`,
      paths.jobs(),
      {
        snapshot: (jobs) => {
          shell.where(jobs.cluster);
          shell.connection(jobs.connection);
          this.#read(this.#selection.jobs);
        },
        rows: ({ changed, deleted }) => this.#changed([...changed, ...deleted]),
        connection: (connection) => shell.connection(connection),
      },
      shell.link,
    );
  }

  /** The address has changed, as by the way back. */
  ask(query) {
    const asked = parse(query);
    if (format(asked) === format(this.#selection)) return;
    const jobs = format({ ...asked, ...PLAIN }) !== format({ ...this.#selection, ...PLAIN });
    if (asked.by !== this.#selection.by) this.charts.zoom(null);
    this.#selection = asked;
    this.#showChoice();
    this.#draw();
    if (jobs) this.#read([]);
  }

  close() {
    this.stream.close();
    this.#abort.abort();
    clearTimeout(this.#timer);
    this.charts.close();
  }

  get by() {
    // Without steps, time is all there is.
    return this.#hasSteps ? this.#selection.by : "time";
  }

  get smooth() {
    return this.#selection.smooth;
  }

  get logarithmic() {
    return this.#selection.logarithmic;
  }

  /** The jobs that are drawn, in the order of the comparison. */
  get runs() {
    const jobs = this.#comparison?.jobs ?? [];
    const several = new Set(jobs.map(({ namespace }) => namespace)).size > 1;
    return jobs.map((job) => ({ title: several ? keyOf(job) : job.name, points: this.#points.get(keyOf(job)) ?? NOTHING }));
  }

  get #hasSteps() {
    return this.runs.some(({ points }) => points.steps.some((step) => step !== null));
  }

  #build(root) {
    this.title = el("h1", { tabindex: "-1" }, "Compare jobs");
    this.jobs = el("ul.compare-jobs", { "aria-label": "Jobs that are compared" });
    this.problem = el("p.note", { role: "alert", hidden: true });
    this.empty = el("div.empty.card", { hidden: true });
    this.loading = el("div.empty.card", {}, "Reading the jobs …");
    const make = (name, size, _, charts) => new CompareChart(name, this, size, charts);
    this.charts = new Charts(make, ["step", "time"], "runs", (part) => this.#choose(part));
    this.none = el("p.none.muted", { hidden: true }, "None of the jobs has reported numbers.");
    this.table = new CompareTable({ sort: (column) => this.#sort(column), turn: (metric, way) => this.#turn(metric, way) });
    this.csv = el("a.button", { download: "jobs.csv" }, "CSV");
    this.differ = el("p.muted.small");
    this.same = el("dl.compare-same");
    this.sameness = el("details.values", {}, el("summary", {}), this.same);
    this.missing = el("p.note.muted", { hidden: true });
    this.content = el(
      "div.job",
      { hidden: true },
      panel("curves", "Curves", [el("div.panel-tools", {}, ...this.charts.tools)], this.none, this.charts.grid, this.charts.more, this.charts.hidden),
      panel("compare", "Parameters and values", [this.differ, el("div.panel-tools", {}, this.csv)], this.table.node, this.sameness),
      this.missing,
    );
    root.replaceChildren(
      el("nav.crumbs", { "aria-label": "Way back" }, el("a", { href: listAddress() }, "← All jobs")),
      el("div.job-head", {}, this.title),
      this.jobs,
      this.problem,
      this.loading,
      this.empty,
      this.content,
    );
  }

  // ------------------------------------------------------------------ what is chosen

  #choose(part) {
    this.#selection = { ...this.#selection, ...part };
    if ("by" in part) this.charts.zoom(null);
    history.replaceState(null, "", `#/compare?${format(this.#selection)}`);
    this.#draw();
  }

  #sort(column) {
    const same = this.#selection.column === column;
    // The third press gives the order back in which the jobs were chosen.
    if (same && this.#selection.descending) this.#choose({ column: "", descending: false });
    else this.#choose({ column, descending: same });
  }

  /** Another value of the metric is the best one. */
  #turn(metric, way) {
    const best = new Map(this.#selection.best);
    best.set(metric, way === "low" ? "high" : "low");
    if (best.get(metric) === this.#comparison.metrics.find(({ name }) => name === metric)?.best) best.delete(metric);
    this.#choose({ best });
    announce(`Of ${metric}, the ${way === "low" ? "highest" : "lowest"} value is the best one now`);
  }

  #remove(job) {
    const jobs = this.#selection.jobs.filter((one) => keyOf(one) !== keyOf(job));
    chosen.set(job, false);
    // Until it is read again, which parameters differ without the job.
    if (this.#comparison) this.#comparison = { ...this.#comparison, jobs: this.#comparison.jobs.filter((one) => keyOf(one) !== keyOf(job)) };
    this.#choose({ jobs });
    this.#showChoice();
    this.title.focus({ preventScroll: true });
    if (jobs.length) this.#read([]);
  }

  #showChoice() {
    const { jobs } = this.#selection;
    chosen.replace(jobs);
    const words = jobs.length ? `Compare ${counted(jobs.length, "job")}` : "Compare jobs";
    say(this.title, words);
    document.title = `${words} · Trainwright`;
    this.empty.hidden = jobs.length > 0 && jobs.length <= MOST;
    this.loading.hidden = !this.empty.hidden || this.#comparison !== null;
    if (!this.empty.hidden) this.content.hidden = true;
    const text = jobs.length ? `At most ${MOST} jobs can be compared at once; choose fewer.` : "Choose jobs in the list, then press Compare.";
    this.empty.replaceChildren(...emptyText(jobs.length ? "Too many jobs" : "No jobs are chosen", text, el("a.button", { href: listAddress() }, "All jobs")));
    // The colours are those of the comparison, which has no place for jobs that are missing.
    const shown = this.#comparison?.jobs ?? [];
    const place = new Map(shown.map((job, index) => [keyOf(job), index]));
    fill(this.jobs, JSON.stringify([jobs, shown.map(keyOf)]), () =>
      jobs.map((job) =>
        el(
          "li",
          {},
          place.has(keyOf(job)) ? swatch(place.get(keyOf(job))) : null,
          el("a", { href: jobHref(job), title: keyOf(job) }, job.name),
          el("button.remove", { type: "button", title: `Leave ${job.name} out`, "aria-label": `Leave ${job.name} out`, onclick: () => this.#remove(job) }, "×"),
        ),
      ),
    );
  }

  // ------------------------------------------------------------------ reading

  #changed(references) {
    const compared = new Set(this.#selection.jobs.map(keyOf));
    const found = references.filter((one) => compared.has(keyOf(one)));
    for (const one of found) this.#stale.add(keyOf(one));
    if (this.#stale.size && !this.#timer) {
      this.#timer = setTimeout(() => {
        this.#timer = 0;
        this.#read(this.#selection.jobs.filter((job) => this.#stale.has(keyOf(job))));
      }, AGAIN_MS);
    }
  }

  /** Read the comparison again, and the curves of these jobs. */
  async #read(jobs) {
    for (const job of jobs) this.#stale.add(keyOf(job));
    if (this.#busy || !this.#selection.jobs.length || this.#selection.jobs.length > MOST) return;
    this.#busy = true;
    const stale = new Set(this.#stale);
    const asked = format({ ...this.#selection, ...PLAIN });
    this.#stale.clear();
    try {
      const comparison = await read(`${paths.compare()}?${asked}`, this.#abort.signal);
      const wanted = comparison.jobs.filter((job) => stale.has(keyOf(job)) || !this.#points.has(keyOf(job)));
      await Promise.all(wanted.map((job) => this.#readCurves(job)));
      this.problem.hidden = true;
      // One may have been left out meanwhile.
      const still = new Set(this.#selection.jobs.map(keyOf));
      this.#comparison = { ...comparison, jobs: comparison.jobs.filter((job) => still.has(keyOf(job))) };
      this.#showChoice();
      this.#draw();
    } catch (error) {
      const problem = problemIn(error);
      if (problem === null) return;
      this.loading.hidden = true;
      this.problem.hidden = false;
      say(this.problem, problem.message);
    } finally {
      this.#busy = false;
    }
    if (format({ ...this.#selection, ...PLAIN }) !== asked) this.#read([]);
    else if (this.#stale.size) this.#changed([]);
  }

  async #readCurves(job) {
    try {
      const { points } = await read(`${paths.job(job)}/series`, this.#abort.signal);
      this.#points.set(keyOf(job), points);
    } catch (error) {
      // It was deleted a moment ago; the next comparison says so.
      if (!(error instanceof Problem) || error.reason !== "NotFound") throw error;
      this.#points.delete(keyOf(job));
    }
  }

  // ------------------------------------------------------------------ showing

  #draw() {
    const comparison = this.#comparison;
    if (comparison === null) return;
    this.content.hidden = comparison.jobs.length === 0 && comparison.missing.length === 0;
    this.loading.hidden = true;
    this.charts.showChoice(this, this.#hasSteps);
    const names = metricsOf(comparison.metrics.map(({ name }) => name), this.runs.map(({ points }) => points));
    this.none.hidden = names.length > 0;
    this.charts.show(names.map((name) => ({ name, size: "tall" })));
    this.table.show(comparison, this.#selection);
    this.table.node.hidden = comparison.jobs.length === 0;
    put(this.csv, "href", `${paths.compare()}/csv?${format({ ...this.#selection, ...PLAIN, best: this.#selection.best })}`);
    const count = comparison.parameters.length;
    const [one] = comparison.jobs.length > 1 ? [count ? `${counted(count, "parameter")} ${count === 1 ? "differs" : "differ"}` : "No parameter differs"] : [""];
    say(this.differ, one);
    this.sameness.hidden = comparison.same.length === 0;
    say(this.sameness.firstChild, comparison.jobs.length > 1 ? `${counted(comparison.same.length, "parameter")} with one value in all jobs` : "Parameters");
    fill(this.same, JSON.stringify(comparison.same), () =>
      comparison.same.map(({ group, name, value }) => el("div", {}, el("dt", {}, group === "environment" ? `env ${name}` : name), el("dd.mono", {}, value))),
    );
    const missing = comparison.missing.map(({ message }) => sentence(message));
    this.missing.hidden = missing.length === 0;
    say(this.missing, `Not compared: ${missing.join(" ")}`);
  }
}

const NOTHING = { times: [], steps: [], percentages: [], curves: [], marks: [] };
