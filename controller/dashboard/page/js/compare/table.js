// SPDX-License-Identifier: Apache-2.0
// What the jobs were run with, and what they came to: one row each, sorted by any column.

import { el, fill, put, scrolling } from "../dom.js";
import { NONE, duration, number } from "../format.js";
import { hrefOf } from "../jobs/row.js";
import { compare, keyOf } from "../jobs/selection.js";
import { sign, toneOf } from "../states.js";
import { swatch } from "./styles.js";

const COMMIT = 12;
const WAYS = { low: "the lowest is best", high: "the highest is best", none: "which is best is not known" };

/** The columns of a comparison: id, title, value for sorting, cell. `best` says which value of a metric is the best. */
export function columnsOf(comparison, best) {
  const { parameters, metrics, jobs } = comparison;
  const columns = [
    { id: "job", title: "Job", value: (job) => job.name },
    { id: "state", title: "State", value: (job) => job.state },
    { id: "took", title: "Took", value: (job) => job.seconds, text: (job) => (job.seconds === null ? NONE : duration(job.seconds)) },
  ];
  parameters.forEach(({ group, name }, place) => {
    const commit = name === "git commit";
    columns.push({
      id: `${group}:${name}`,
      title: name,
      note: { environment: "environment", patch: "patch" }[group] ?? "",
      kind: "parameter",
      value: (job) => sortable(job.parameters[place]),
      text: (job) => (commit ? job.parameters[place]?.slice(0, COMMIT) : job.parameters[place]) ?? NONE,
      whole: (job) => job.parameters[place],
    });
  });
  metrics.forEach((metric, place) => {
    const way = best.get(metric.name) ?? metric.best;
    const measure = (job) => job.measures[place];
    const bestOf = (job) => ({ low: measure(job)?.lowest, high: measure(job)?.highest })[way] ?? null;
    const known = jobs.map(bestOf).filter((value) => value !== null);
    const leader = new Set(known).size > 1 ? (way === "low" ? Math.min(...known) : Math.max(...known)) : null;
    columns.push({
      id: `last:${metric.name}`,
      title: metric.name,
      note: "last",
      kind: "value",
      value: (job) => measure(job)?.lastNumber ?? null,
      text: (job) => (measure(job) ? number(measure(job).last) : NONE),
      whole: (job) => measure(job)?.last,
    });
    columns.push({
      id: `best:${metric.name}`,
      title: metric.name,
      note: "best",
      kind: "value",
      metric: metric.name,
      way: way ?? "none",
      value: bestOf,
      text: (job) => (bestOf(job) === null ? NONE : number(bestOf(job))),
      whole: (job) => {
        const step = { low: measure(job)?.lowestStep, high: measure(job)?.highestStep }[way] ?? null;
        return step === null ? null : `at about step ${number(step)}`;
      },
      leads: (job) => leader !== null && bestOf(job) === leader,
    });
  });
  return columns;
}

/** The jobs with their places in the comparison, in the order of a column. */
export function sorted(jobs, column, descending) {
  const placed = jobs.map((job, place) => ({ job, place }));
  if (!column) return placed;
  const sense = descending ? -1 : 1;
  return placed.sort((a, b) => compare(column.value(a.job), column.value(b.job), sense) || a.place - b.place);
}

function sortable(text) {
  if (text === null) return null;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

export class CompareTable {
  #on;

  /** @param on `sort(id)` and `turn(metric)`: a head was pressed */
  constructor(on) {
    this.#on = on;
    this.table = el("table.plain.compare-table");
    this.node = scrolling("div.table-scroll.compare-scroll", "Parameters and values", this.table);
  }

  show(comparison, { best, column, descending }) {
    const columns = columnsOf(comparison, best);
    const rows = sorted(comparison.jobs, columns.find(({ id }) => id === column), descending);
    const key = JSON.stringify([comparison.jobs, comparison.parameters, comparison.metrics, [...best], column, descending]);
    const focused = this.table.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    fill(this.table, key, () => [
      el("thead", {}, el("tr", {}, ...columns.map((one) => this.#head(one, one.id === column, descending)))),
      el("tbody", {}, ...rows.map(({ job, place }) => el("tr", {}, ...columns.map((one) => cell(one, job, place))))),
    ]);
    // A table that is made again keeps the place of the keyboard.
    if (focused) this.table.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  #head(column, chosen, descending) {
    const label = [column.title, column.note ? el("span.head-note", {}, column.note) : null];
    const made = el("th", { scope: "col" }, el("button.head-button", { type: "button", dataset: { focus: column.id }, onclick: () => this.#on.sort(column.id) }, ...label));
    if (chosen) put(made, "aria-sort", descending ? "descending" : "ascending");
    if (column.metric !== undefined) {
      const words = `${column.title}: ${WAYS[column.way]}. Change that`;
      const attributes = { type: "button", dataset: { focus: `way:${column.metric}` }, title: words, "aria-label": words };
      const turn = () => this.#on.turn(column.metric, column.way);
      made.append(el("button.way", { ...attributes, onclick: turn }, { low: "▼ low", high: "▲ high", none: "low or high?" }[column.way]));
    }
    return made;
  }
}

function cell(column, job, place) {
  if (column.id === "job") {
    return el("th", { scope: "row" }, swatch(place), el("a", { href: hrefOf(job), title: keyOf(job) }, job.name));
  }
  if (column.id === "state") return el("td", {}, el("span.state", { dataset: { tone: toneOf(job.state) } }, sign(job.state), el("span", {}, job.state)));
  const text = column.text(job);
  const whole = column.whole?.(job);
  const attributes = { title: whole && String(whole) !== text ? whole : null };
  const leads = column.leads?.(job);
  return el(
    column.kind === "value" || column.id === "took" ? "td.number" : "td.mono",
    attributes,
    leads ? el("strong", {}, text, el("span.leads", { "aria-hidden": "true" }, "★"), el("span.unseen", {}, " best of all")) : text,
  );
}
