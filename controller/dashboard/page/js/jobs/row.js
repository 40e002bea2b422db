// SPDX-License-Identifier: Apache-2.0
// One row of the list.

import { now } from "../clock.js";
import { el, put, say } from "../dom.js";
import { NONE, age, counted, duration, number, secondsOf, spokenDuration } from "../format.js";
import { showState, stateElement, toneOf, whyOf } from "../states.js";
import { choiceOf, showChoice } from "./chosen.js";
import { took } from "./selection.js";
import { showSpark, spark } from "./spark.js";

export const hrefOf = (row) => `#/jobs/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;

export const searchHref = (row) => `#/searches/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.search)}`;

/** An empty row. `chosen`: called when it is chosen to be compared, or is not any more. */
export function makeRow(chosen) {
  const parts = {
    choice: choiceOf(chosen),
    link: el("a.row-name", { tabindex: "-1" }),
    about: el("span.row-about"),
    state: stateElement(),
    fill: el("span"),
    percent: el("span.row-percent.number"),
    note: el("span.row-note"),
    how: el("span.row-note"),
    parameters: el("span.row-parameters"),
    created: el("span.number"),
    took: el("span.number"),
    eta: el("span.number"),
    report: el("span.number"),
    loss: el("span.number"),
    spark: spark(),
  };
  const bar = el("div.bar", { "aria-hidden": "true" }, parts.fill);
  const cell = (name, ...children) => el(`div.cell.cell-${name}`, { role: "cell" }, ...children);
  const made = el(
    "div.row",
    { role: "row" },
    cell("choose", parts.choice),
    el("div.cell.cell-name", { role: "rowheader" }, parts.link, parts.about),
    cell("state", parts.state),
    cell("progress", el("div.row-progress", {}, bar, parts.percent), parts.note, parts.how),
    cell("parameters", parts.parameters),
    cell("eta", el("span.row-label", { "aria-hidden": "true" }, "ETA "), parts.eta),
    cell("report", el("span.row-label", { "aria-hidden": "true" }, "Report "), parts.report),
    cell("created", el("span.row-label", { "aria-hidden": "true" }, "Created "), parts.created),
    cell("duration", el("span.row-label", { "aria-hidden": "true" }, "Took "), parts.took),
    cell("loss", parts.loss, parts.spark),
  );
  made.parts = { ...parts, bar };
  return made;
}

/** Show a job in a row, as of now. `names`: of the parameters that differ. */
export function showRow(made, row, names) {
  const { parts } = made;
  const state = row.state;
  const [said, how] = row.failure;
  const why = said ?? whyOf(row);
  const moment = now();
  showChoice(parts.choice, row);
  say(parts.link, row.name);
  put(parts.link, "href", hrefOf(row));
  put(parts.link, "title", row.name.length > 24 ? row.name : null);
  const about = [row.attempt > 1 ? `attempt ${row.attempt}` : "", row.nodes ? counted(row.nodes, "node") : "", row.runtime.name, row.namespace].filter(Boolean).join(" · ");
  say(parts.about, about);
  put(parts.about, "title", about);
  showState(parts.state, state);
  put(parts.bar, "data-tone", toneOf(state));
  put(made, "data-why", why ? "yes" : null);
  const width = `${row.percentage ?? 0}%`;
  if (parts.fill.style.width !== width) parts.fill.style.width = width;
  parts.bar.parentElement.hidden = why !== "" && (row.percentage === null || said !== undefined);
  parts.bar.classList.toggle("none", row.percentage === null);
  say(parts.percent, row.percentage === null ? NONE : `${row.percentage}%`);
  const note = why || steps(row);
  say(parts.note, note);
  put(parts.note, "title", why.length > 60 ? why : null);
  say(parts.how, said === undefined ? "" : [how, row.percentage === null ? "" : `at ${row.percentage}%`].filter(Boolean).join(", "));
  const differs = names.filter((name) => name in row.parameters).map((name) => `${name}=${row.parameters[name]}`).join("\n");
  say(parts.parameters, differs);
  put(parts.parameters, "title", differs.length > 24 ? differs : null);
  say(parts.eta, eta(row, moment));
  put(parts.eta, "title", etaTitle(row, moment));
  const reported = secondsOf(row.lastReport);
  say(parts.report, age(reported, moment));
  put(parts.report, "title", reported === null ? null : new Date(reported * 1000).toLocaleString());
  const created = secondsOf(row.created);
  say(parts.created, age(created, moment));
  put(parts.created, "title", created === null ? null : new Date(created * 1000).toLocaleString());
  const seconds = took(row, moment);
  say(parts.took, seconds === null ? NONE : duration(seconds));
  say(parts.loss, row.loss ? number(row.loss.value) : NONE);
  put(parts.loss, "title", row.loss ? row.loss.metric : null);
  showSpark(parts.spark, row.loss?.points ?? []);
}

/** Step and epoch, as far as the training told them. */
export function steps(row) {
  const found = [];
  for (const [what, here, total] of [["step", row.step, row.totalSteps], ["epoch", row.epoch, row.totalEpochs]]) {
    if (here !== null) found.push(`${what} ${number(here)}${total === null ? "" : ` of ${number(total)}`}`);
  }
  return found.join(", ");
}

/** The time to go; `~` if it comes from the slope of the percentage. */
export function eta(row, moment) {
  const left = row.remaining;
  if (!left) return NONE;
  const lateAt = secondsOf(left.lateAt);
  if (left.late || (lateAt !== null && moment > lateAt)) return "late";
  return `${left.source === "history" ? "~" : ""}${duration(secondsOf(left.at) - moment)}`;
}

export function etaTitle(row, moment) {
  const left = row.remaining;
  if (!left) return null;
  const source = left.source === "history" ? "estimated from the last minutes" : "reported by the training";
  const at = secondsOf(left.at);
  return eta(row, moment) === "late"
    ? "The time that was reported has passed."
    : `${spokenDuration(at - moment)} to go, until ${new Date(at * 1000).toLocaleString()}, ${source}`;
}
