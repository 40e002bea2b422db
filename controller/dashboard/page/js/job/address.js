// SPDX-License-Identifier: Apache-2.0
// What of a job is shown, as the address keeps it: axis, scale, range, attempt, and the log. Pure.

/** What the address asks for. */
export function parse(query) {
  const asked = new URLSearchParams(query);
  const attempt = Number(asked.get("attempt"));
  const range = (asked.get("range") ?? "").split("~").map(Number);
  return {
    by: asked.get("by") === "step" ? "step" : "time",
    logarithmic: asked.get("scale") === "log",
    smooth: weight(asked.get("smooth")),
    range: range.length === 2 && range.every(Number.isFinite) && range[0] < range[1] ? range : null,
    /** null: all of them. */
    attempt: Number.isInteger(attempt) && attempt > 0 ? attempt : null,
    /** Pod, container and `previous` of the log; a pod `*` is all ranks; null: the page chooses. */
    log: asked.get("log") ? { pod: asked.get("log"), container: asked.get("container") ?? "", previous: asked.get("run") === "before" } : null,
    find: asked.get("find") ?? "",
  };
}

/** How much is smoothed: 0 for not at all, to less than 1. */
export function weight(text) {
  const smooth = Number(text ?? 0);
  return smooth > 0 && smooth < 1 ? smooth : 0;
}

/** The address for a choice; empty for the default. */
export function format({ by, logarithmic, smooth, range, attempt, log, find }) {
  const asked = new URLSearchParams();
  if (by === "step") asked.set("by", "step");
  if (logarithmic) asked.set("scale", "log");
  if (smooth) asked.set("smooth", smooth);
  if (range) asked.set("range", range.map((edge) => Number(edge.toPrecision(13))).join("~"));
  if (attempt) asked.set("attempt", attempt);
  if (log) {
    asked.set("log", log.pod);
    if (log.container) asked.set("container", log.container);
    if (log.previous) asked.set("run", "before");
  }
  if (find) asked.set("find", find);
  return asked.toString();
}
