// SPDX-License-Identifier: Apache-2.0
// How a job stands: one word, one tone and one sign for each, so that no state is told by colour alone.

import { draw, el, put, say } from "./dom.js";

const TONES = {
  Running: "running",
  Stalled: "warning",
  Restarting: "warning",
  Waiting: "warning",
  Stuck: "failed",
  Pending: "quiet",
  Blocked: "failed",
  Suspended: "quiet",
  Deleting: "quiet",
  Failed: "failed",
  Complete: "complete",
};

/** In the order of lists: what trains first, then what waits, then what has ended. */
export const STATES = Object.keys(TONES);

const SIGNS = {
  Running: "M5 3.2v9.6L13 8z",
  Stalled: "M8 1.5 15 14H1zM8 6v4M8 12v.4",
  Restarting: "M13 5.5A5.5 5.5 0 1 0 13.5 9M13 2v3.7H9.3",
  Stuck: "M5.3 2h5.4L14 5.3v5.4L10.7 14H5.3L2 10.7V5.3zM8 5v4M8 11v.4",
  Waiting: "M4 2h8M4 14h8M5 2c0 4 6 4 6 6s-6 2-6 6M11 2c0 4-6 4-6 6s6 2 6 6",
  Pending: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 5v3.2l2.2 1.4",
  Blocked: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M4 12 12 4",
  Suspended: "M5.5 3.5v9M10.5 3.5v9",
  Deleting: "M3 4.5h10M6 4.5V2.8h4v1.7M4.5 4.5l.7 9h5.6l.7-9",
  Failed: "M4 4l8 8M12 4l-8 8",
  Complete: "M3 8.5 6.5 12 13 4.5",
};

const POD_TONES = {
  Running: ["running", "Running"],
  Succeeded: ["complete", "Complete"],
  Failed: ["failed", "Failed"],
  Pending: ["quiet", "Pending"],
  Terminating: ["quiet", "Deleting"],
  Unknown: ["warning", "Stalled"],
};

/** Where nothing is said of a job but that it is on its way. */
export const ON_ITS_WAY = ["Running", "Pending"];

export function toneOf(state) {
  return TONES[state] ?? "quiet";
}

/** Why a job does not train, as far as the row says; empty for one that does. */
export function whyOf(row) {
  if (row.state === "Complete") return "";
  if (row.state === "Pending" && row.managedBy) return `${row.managedBy} works on this job.`;
  return row.message || row.reason;
}

export function sign(state) {
  const solid = state === "Running";
  return draw(
    "svg",
    { viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    draw("path", {
      d: SIGNS[state] ?? SIGNS.Pending,
      fill: solid ? "currentColor" : "none",
      stroke: "currentColor",
      "stroke-width": solid ? 1 : 1.8,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
}

/** An element that shows a state; `showState` changes it. */
export function stateElement() {
  const word = el("span");
  const made = el("span.state", {}, word);
  made.word = word;
  return made;
}

export function showState(node, state) {
  if (node.shown === state) return;
  node.shown = state;
  put(node, "data-tone", toneOf(state));
  node.replaceChildren(sign(state), node.word);
  say(node.word, state);
}

/** The same for the phase of a pod. */
export function podState(phase, reason) {
  const [tone, like] = POD_TONES[phase] ?? POD_TONES.Unknown;
  return el("span.state", { dataset: { tone } }, sign(like), el("span", {}, reason || phase));
}
