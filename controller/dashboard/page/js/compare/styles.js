// SPDX-License-Identifier: Apache-2.0
// How the lines of jobs are told apart: by colour, then by dashes.

import { draw } from "../dom.js";

const COLOURS = 6;
const DASHES = [[], [8, 4], [2, 4], [10, 4, 2, 4]];

export const seriesOf = (place) => String((place % COLOURS) + 1);

export const dashOf = (place) => DASHES[Math.floor(place / COLOURS) % DASHES.length];

/** A piece of the line of a job. */
export function swatch(place) {
  const line = draw("line", { x1: 0, y1: 4, x2: 26, y2: 4, stroke: "currentColor", "stroke-width": 3, "stroke-dasharray": dashOf(place).join(" ") });
  const made = draw("svg", { viewBox: "0 0 26 8", class: "swatch", "aria-hidden": "true", focusable: "false" }, line);
  made.dataset.series = seriesOf(place);
  return made;
}
