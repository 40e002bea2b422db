// SPDX-License-Identifier: Apache-2.0
// A small drawing of a course. The number beside it says the value, so screen readers pass over the drawing.

import { draw } from "../dom.js";

const WIDTH = 92;
const HEIGHT = 28;

export function spark() {
  const line = draw("polyline", { fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linejoin": "round" });
  const dot = draw("circle", { r: 2.2, fill: "currentColor" });
  const made = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", "aria-hidden": "true" }, line, dot);
  made.line = line;
  made.dot = dot;
  return made;
}

export function showSpark(node, points) {
  const key = points.join(" ");
  if (node.shown === key) return;
  node.shown = key;
  node.toggleAttribute("hidden", points.length < 2);
  if (points.length < 2) return;
  // Halves, since the difference of two large numbers may not be finite.
  const low = Math.min(...points) / 2;
  const span = Math.max(...points) / 2 - low;
  const at = points.map((value, index) => [
    3 + (index * (WIDTH - 8)) / (points.length - 1),
    3 + (HEIGHT - 6) * (span > 0 ? 1 - (value / 2 - low) / span : 0.5),
  ]);
  node.line.setAttribute("points", at.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "));
  node.dot.setAttribute("cx", at.at(-1)[0].toFixed(1));
  node.dot.setAttribute("cy", at.at(-1)[1].toFixed(1));
}
