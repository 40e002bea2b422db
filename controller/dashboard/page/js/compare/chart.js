// SPDX-License-Identifier: Apache-2.0
// One metric of all jobs: drawn by uPlot, readable by keyboard.

import { announce, el, fill, put, say } from "../dom.js";
import { NONE, counted, duration, number, tick } from "../format.js";
import { colour, roomy } from "../job/chart.js";
import { columnsOf, lineOf, smoothed, thinned, valueAt } from "./lines.js";
import { dashOf, seriesOf, swatch } from "./styles.js";

const HEIGHT = 260;
const FAINT = 0.28;

export class CompareChart {
  #name;
  #group;
  #plot = null;
  #shape = "";
  #xs = [];
  #lines = [];
  #cursor = null;
  #frame;
  #observer;

  /** @param group what charts share: `runs`, `by`, `smooth`, `logarithmic`, `range`, `zoom(range)`, `point(x, from)` */
  constructor(name, group) {
    this.#name = name;
    this.#group = group;
    this.where = el("span.chart-where.muted.number");
    this.#frame = el("div.chart-frame", { tabindex: "0", role: "group", "aria-roledescription": "chart", onkeydown: (event) => this.#key(event) });
    this.values = el("ul.compare-values.number", { "aria-label": `Values of ${name}` });
    this.node = el("figure.chart.card", { dataset: { metric: name } }, el("figcaption.chart-head", {}, el("h3", {}, name), this.where), this.#frame, this.values);
    this.#observer = new ResizeObserver(() => this.#plot?.setSize(this.#size()));
    this.#observer.observe(this.#frame);
  }

  close() {
    this.#observer.disconnect();
    this.#plot?.destroy();
    this.node.remove();
  }

  reshape() {
    this.#shape = "";
    this.draw();
  }

  draw() {
    const { runs, by, smooth, logarithmic } = this.#group;
    const raw = runs.map(({ points }) => thinned(lineOf(points, this.#name, by)));
    this.#lines = raw.map(({ xs, ys }) => ({ xs, ys: smoothed(ys, smooth) }));
    const drawn = smooth ? [...raw, ...this.#lines] : this.#lines;
    const { xs, columns } = columnsOf(drawn);
    this.#xs = xs;
    const positive = logarithmic && raw.every(({ ys }) => ys.every((value) => value > 0));
    const shape = [by, positive, smooth > 0, runs.length].join();
    if (shape !== this.#shape || !this.#plot) this.#make(shape, by, positive, smooth > 0);
    this.#plot.setData([xs, ...columns], false);
    this.range();
    this.#read(null);
    this.#describe();
  }

  range() {
    if (!this.#xs.length || !this.#plot) return;
    const [low, high] = [this.#xs[0], this.#xs.at(-1)];
    const [min, max] = this.#group.range ?? (high > low ? [low, high] : [low - 1, high + 1]);
    this.#plot.setScale("x", { min, max });
  }

  /** Another chart points at x. */
  point(x) {
    this.#read(x);
    const left = x === null || !this.#plot ? -10 : this.#plot.valToPos(x, "x");
    this.#plot?.setCursor({ left, top: x === null ? -10 : 10 }, false);
  }

  #size() {
    return { width: Math.max(160, Math.floor(this.#frame.clientWidth)), height: HEIGHT };
  }

  #make(shape, by, logarithmic, isSmooth) {
    this.#plot?.destroy();
    this.#shape = shape;
    const [muted, grid] = [colour("--muted"), colour("--line")];
    const axis = { stroke: muted, font: "12px system-ui, sans-serif", grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const line = (_, place) => ({ stroke: colour(`--series-${seriesOf(place)}`), width: 2, dash: dashOf(place), spanGaps: true, points: { show: this.#lines[place].xs.length < 2, size: 6 } });
    const faint = (run, place) => ({ ...line(run, place), width: 1, alpha: FAINT, points: { show: false } });
    const { runs } = this.#group;
    this.#plot = new uPlot(
      {
        ...this.#size(),
        padding: [12, 30, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false }, bind: { dblclick: () => () => this.#group.zoom(null) } },
        scales: { x: { time: false, auto: false }, y: logarithmic ? { distr: 3 } : { range: (_, low, high) => roomy(low, high) } },
        axes: [
          { ...axis, space: 80, size: 34, incrs: by === "time" ? [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800] : undefined, values: (_, ticks) => ticks.map((value) => (by === "time" ? duration(value) : number(value))) },
          { ...axis, size: 58, values: (_, ticks) => ticks.map((value) => (value === null ? "" : tick(value))) },
        ],
        series: [{}, ...(isSmooth ? runs.map(faint) : []), ...runs.map(line)],
        hooks: {
          setCursor: [(plot) => this.#pointed(plot)],
          setSelect: [(plot) => this.#selected(plot)],
        },
      },
      [[], ...new Array(runs.length * (isSmooth ? 2 : 1)).fill([])],
      this.#frame,
    );
  }

  #pointed(plot) {
    const { idx, event } = plot.cursor;
    // Only what the pointer does here: charts that follow must not lead.
    if (!event) return;
    const x = idx === null || idx === undefined ? null : this.#xs[idx];
    this.#read(x);
    this.#group.point(x, this);
  }

  #selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#group.zoom(range);
  }

  /** Show the values at x; without x the last ones. */
  #read(x) {
    this.#cursor = x;
    const { runs } = this.#group;
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
    say(this.where, this.#group.smooth ? `${place}, smoothed` : place);
  }

  #placeOf(x) {
    return this.#group.by === "time" ? `after ${duration(x)}` : `step ${number(x)}`;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.#frame || !this.#xs.length) return;
    const xs = this.#xs;
    const found = this.#cursor === null ? xs.length - 1 : xs.indexOf(this.#cursor);
    const here = found < 0 ? xs.length - 1 : found;
    const [min, max] = this.#group.range ?? [xs[0], xs.at(-1)];
    const middle = this.#cursor ?? (min + max) / 2;
    const zoom = (factor) => [Math.max(xs[0], middle - ((max - min) / 2) * factor), Math.min(xs.at(-1), middle + ((max - min) / 2) * factor)];
    const step = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: here - step, ArrowRight: here + step, Home: 0, End: xs.length - 1 }[event.key];
    if (to !== undefined) {
      const x = xs[Math.min(xs.length - 1, Math.max(0, to))];
      this.point(x);
      this.#group.point(x, this);
      announce(`${this.#placeOf(x)}: ${this.#told(x)}`);
    } else if (event.key === "+" || event.key === "=") {
      this.#group.zoom(zoom(0.5));
    } else if (event.key === "-") {
      const wider = zoom(2);
      this.#group.zoom(wider[0] <= xs[0] && wider[1] >= xs.at(-1) ? null : wider);
    } else if (event.key === "0") {
      this.#group.zoom(null);
    } else {
      return;
    }
    event.preventDefault();
  }

  #told(x) {
    const values = this.#lines.map((line, place) => [this.#group.runs[place].title, valueAt(line, x)]);
    return values.filter(([, value]) => value !== null).map(([title, value]) => `${title} ${number(value)}`).join(", ");
  }

  #describe() {
    const count = this.#lines.filter(({ xs }) => xs.length).length;
    put(this.#frame, "aria-label", `${this.#name} of ${counted(count, "job")}, last: ${this.#told(null)}. Arrow keys read points; plus and minus zoom.`);
  }
}
