// SPDX-License-Identifier: Apache-2.0
// One metric of all jobs.

import { Chart, FAINT, colour, smoothed } from "../charts/chart.js";
import { el, fill, say } from "../dom.js";
import { NONE, counted, duration, number } from "../format.js";
import { columnsOf, lineOf, thinned, valueAt } from "./lines.js";
import { dashOf, seriesOf, swatch } from "./styles.js";

/** Distances of ticks, in seconds. */
const TICKS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];

export class CompareChart extends Chart {
  #lines = [];

  /** @param view has `runs`, `by`, `smooth`, `logarithmic` */
  constructor(name, view, size, charts) {
    super(name, name, view, charts, size);
    this.values = el("ul.compare-values.number", { "aria-label": `Values of ${name}` });
    this.node.append(this.values);
  }

  columns() {
    const { runs, by, smooth } = this.view;
    const raw = runs.map(({ points }) => thinned(lineOf(points, this.name, by)));
    this.#lines = raw.map(({ xs, ys }) => ({ xs, ys: smoothed(ys, smooth) }));
    const { xs, columns } = columnsOf(smooth ? [...raw, ...this.#lines] : this.#lines);
    this.xs = xs;
    return columns;
  }

  shape() {
    return [this.view.smooth > 0, this.view.runs.length].join();
  }

  options() {
    const { runs, by, smooth } = this.view;
    const time = by === "time";
    const line = (_, place) => ({ stroke: colour(`--series-${seriesOf(place)}`), width: 2, dash: dashOf(place), spanGaps: true, points: { show: this.#lines[place].xs.length < 2, size: 6 } });
    const faint = (run, place) => ({ ...line(run, place), width: 1, alpha: FAINT, points: { show: false } });
    return {
      points: { show: false },
      x: { space: 80, size: 34, incrs: time ? TICKS : undefined, values: (_, ticks) => ticks.map((value) => (time ? duration(value) : number(value))) },
      series: [...(smooth ? runs.map(faint) : []), ...runs.map(line)],
    };
  }

  read(x) {
    const { runs, smooth } = this.view;
    fill(this.values, runs.map(({ title }) => title).join("\n"), () =>
      runs.map(({ title }, place) => el("li", {}, swatch(place), el("span.compare-name", {}, title), el("span.compare-value"))),
    );
    this.#lines.forEach((line, place) => {
      const item = this.values.children[place];
      const value = valueAt(line, x);
      say(item.lastChild, value === null ? NONE : number(value));
      item.hidden = line.xs.length === 0;
    });
    const place = x === null ? "last" : this.#placeOf(x);
    say(this.where, smooth ? `${place}, smoothed` : place);
  }

  spoken() {
    return `${this.#placeOf(this.cursor)}: ${this.#told(this.cursor)}`;
  }

  description() {
    const count = this.#lines.filter(({ xs }) => xs.length).length;
    return `${this.name} of ${counted(count, "job")}, last: ${this.#told(null)}. Arrow keys read points; plus and minus zoom.`;
  }

  #placeOf(x) {
    return this.view.by === "time" ? `after ${duration(x)}` : `step ${number(x)}`;
  }

  #told(x) {
    const values = this.#lines.map((line, place) => [this.view.runs[place].title, valueAt(line, x)]);
    return values.filter(([, value]) => value !== null).map(([title, value]) => `${title} ${number(value)}`).join(", ");
  }
}
