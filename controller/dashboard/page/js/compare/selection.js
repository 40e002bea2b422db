// SPDX-License-Identifier: Apache-2.0
// Which jobs are compared, and how. Pure, and kept in the address, so that a comparison can be shared and found again.

import { weight } from "../job/address.js";
import { keyOf } from "../jobs/selection.js";

/** More lines in one chart cannot be told apart; the dashboard answers no more either. */
export const MOST = 24;

/** The choices that say how, not what. */
export const PLAIN = { by: "step", smooth: 0, logarithmic: false, best: new Map(), column: "", descending: false };

/** What the address asks for. */
export function parse(query) {
  const asked = new URLSearchParams(query);
  const jobs = [...new Set(asked.getAll("job"))].filter((text) => /^[^/]+\/[^/]+$/.test(text));
  const [column, direction] = (asked.get("sort") ?? "").split(/\.(?=up$|down$)/);
  return {
    jobs: jobs.map((text) => ({ namespace: text.split("/")[0], name: text.split("/")[1] })),
    by: asked.get("by") === "time" ? "time" : "step",
    logarithmic: asked.get("scale") === "log",
    smooth: weight(asked.get("smooth")),
    best: new Map([...asked.getAll("low").map((name) => [name, "low"]), ...asked.getAll("high").map((name) => [name, "high"])]),
    column: column ?? "",
    descending: direction === "down",
  };
}

/** The address for a selection, without what is the default. */
export function format(selection) {
  const asked = new URLSearchParams();
  for (const job of selection.jobs) asked.append("job", keyOf(job));
  if (selection.by !== "step") asked.set("by", selection.by);
  if (selection.smooth) asked.set("smooth", String(selection.smooth));
  if (selection.logarithmic) asked.set("scale", "log");
  for (const [name, way] of selection.best) asked.append(way, name);
  if (selection.column) asked.set("sort", `${selection.column}.${selection.descending ? "down" : "up"}`);
  return asked.toString();
}

/** The address of a comparison of jobs. */
export function hrefOf(jobs) {
  return `#/compare?${format({ jobs, ...PLAIN })}`;
}
