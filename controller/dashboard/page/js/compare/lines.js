// SPDX-License-Identifier: Apache-2.0
// Runs as lines that can lie in one chart. Pure.

import { sideBySide } from "../job/series.js";

/** Points of one line: a chart has not many more columns, and there may be many lines. */
const MOST = 500;

/**
 * One metric of one run, with x rising. What a later attempt did again replaces what was there before.
 * @param points `Points` of the contract
 * @param by `step`, or `time`: seconds since the first report of the run
 */
export function lineOf(points, name, by) {
  const values = points.curves.find((curve) => curve.name === name)?.values ?? [];
  const times = by === "step" ? [] : sideBySide(points.times);
  const xs = [];
  const ys = [];
  let lowest = Infinity;
  for (let index = values.length - 1; index >= 0; index -= 1) {
    const step = points.steps[index];
    const x = by === "step" ? step : times[index] - times[0];
    if (values[index] === null || x === null || x >= lowest) continue;
    lowest = x;
    xs.push(x);
    ys.push(values[index]);
  }
  return { xs: xs.reverse(), ys: ys.reverse() };
}

/** The same line in few points, the last one among them. */
export function thinned({ xs, ys }) {
  const every = Math.ceil(xs.length / MOST);
  if (every <= 1) return { xs, ys };
  const kept = (_, index) => (xs.length - 1 - index) % every === 0;
  return { xs: xs.filter(kept), ys: ys.filter(kept) };
}

/** Lines as columns over all their x, for the chart. */
export function columnsOf(lines) {
  const xs = [...new Set(lines.flatMap((line) => line.xs))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, index) => [x, index]));
  const columns = lines.map((line) => {
    const column = new Array(xs.length).fill(null);
    line.xs.forEach((x, index) => {
      column[place.get(x)] = line.ys[index];
    });
    return column;
  });
  return { xs, columns };
}

/** The value of a line at x: that of the point before; the last one without x. Null before the line begins. */
export function valueAt({ xs, ys }, x) {
  if (!xs.length) return null;
  if (x === null) return ys.at(-1);
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low ? ys[low - 1] : null;
}

/** The metrics of runs, in the order of the comparison; those that only the curves have come last. */
export function metricsOf(known, runs) {
  const found = new Set(known);
  for (const points of runs) for (const { name, values } of points.curves) if (values.some((value) => value !== null)) found.add(name);
  return [...found].filter((name) => runs.some((points) => points.curves.some((curve) => curve.name === name && curve.values.some((value) => value !== null))));
}
