// SPDX-License-Identifier: Apache-2.0
// A chart: drawn by uPlot, read by pointer and keyboard. A class that extends it says what is drawn and read.

import { announce, el, put } from "../dom.js";
import { tick } from "../format.js";

/** The shortest horizontal axis, in seconds or steps. */
const LEAST = { time: 20, step: 2 };
const FONT = "12px system-ui, sans-serif";
/** Of charts by size, in pixels. */
const HEIGHTS = { tall: 260, large: 250, middle: 200, small: 110 };
const probe = document.createElement("span");

/** How strong the reported values are behind smoothed ones. */
export const FAINT = 0.28;

/** An exponential moving average that does not begin at zero. `weight`: 0 for none, to less than 1; nulls stay. */
export function smoothed(values, weight) {
  if (!weight) return values;
  let [sum, seen] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    seen = seen * weight + (1 - weight);
    return sum / seen;
  });
}

/** A colour of the theme as the canvas understands it. */
export function colour(variable) {
  if (!probe.isConnected) {
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${variable})`;
  return getComputedStyle(probe).color;
}

/** A little room above and below; a flat curve lies in the middle. */
export function roomy(low, high) {
  if (low === null || high === null) return [0, 1];
  const span = high - low;
  if (!Number.isFinite(span)) return [low, high];
  const room = span > 0 ? span * 0.08 : Math.abs(low) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

/**
 * What a class that extends it has:
 * - `columns()`: the values by column, after it has set `xs`
 * - `options()`: `x`, `series`, and `points`, `bands`, `draw`, `time` where they are not the usual ones
 * - `shape()`: changes when the options do
 * - `read(x)`: show the values at x; null: the last ones
 * - `description()`, `spoken()`: for screen readers, the whole chart and what is read
 */
export class Chart {
  #plot = null;
  #shape = "";
  #by = "";
  #frame;
  #observer;
  /** Whether the values go from 0 to 100. */
  percent = false;
  /** What is read; null: the last point. */
  cursor = null;
  xs = [];

  /**
   * @param view has `by`, `logarithmic`, `smooth` and the data
   * @param charts what charts share: `range`, `zoom(range)`, `point(x, from)`, `toggle(name, list)`
   * @param size `large`, `middle`, `small`, or `tall` and half as wide as the large ones
   */
  constructor(name, title, view, charts, size) {
    Object.assign(this, { name, view, charts, size });
    this.where = el("span.chart-where.muted.number");
    this.#frame = el("div.chart-frame", {
      tabindex: "0",
      role: "group",
      "aria-roledescription": "chart",
      onkeydown: (event) => this.#key(event),
      onblur: () => this.#go(null),
    });
    const tool = (sign, word, list) => el("button.remove", { type: "button", title: `${word} ${title}`, "aria-label": `${word} ${title}`, onclick: () => charts.toggle(name, list) }, sign);
    this.pin = tool("★", "Pin", "pinned");
    const hide = tool("×", "Hide", "hidden");
    const head = el("figcaption.chart-head", {}, el("h3", {}, title), this.where, el("span.chart-tools", {}, this.pin, hide));
    this.node = el("figure.chart.card", { dataset: { metric: name, size } }, head, this.#frame);
    this.#observer = new ResizeObserver(() => this.#plot?.setSize(this.#size()));
    this.#observer.observe(this.#frame);
  }

  close() {
    this.#observer.disconnect();
    this.#plot?.destroy();
    this.node.remove();
  }

  focus() {
    this.#frame.focus();
  }

  /** Draw again with other colours or axes. */
  reshape() {
    this.#shape = "";
    this.draw();
  }

  draw() {
    const { by, logarithmic } = this.view;
    const columns = this.columns();
    const positive = logarithmic && !this.percent && columns.flat().every((value) => value === null || value > 0);
    const shape = [by, positive, this.shape()].join();
    if (shape !== this.#shape || !this.#plot) this.#make(positive, columns);
    this.#shape = shape;
    this.#plot.setData([this.xs, ...columns], false);
    this.range();
    // What is read stays where it is when a report comes; another axis has other places.
    if (this.#by !== by) this.cursor = null;
    this.#by = by;
    this.read(this.cursor);
    put(this.#frame, "aria-label", this.description());
  }

  /** Show the range that all charts share. */
  range() {
    const { xs } = this;
    if (!xs.length || !this.#plot) return;
    // A single point lies in the middle, and the first points do not fill the whole width: labels would be the same.
    const [span, least] = [xs.at(-1) - xs[0], LEAST[this.view.by]];
    const all = span > 0 ? [xs[0], Math.max(xs.at(-1), xs[0] + least)] : [xs[0] - least / 2, xs[0] + least / 2];
    const [min, max] = this.charts.range ?? all;
    this.#plot.setScale("x", { min, max });
  }

  /** Another chart points at x; null: nowhere. */
  point(x) {
    this.cursor = x;
    this.read(x);
    if (!this.#plot || !this.xs.length) return;
    this.#plot.setCursor({ left: x === null ? -10 : this.#plot.valToPos(x, "x"), top: x === null ? -10 : 10 }, false);
  }

  /** The place of the point that is nearest to x; the last of all for null. */
  indexAt(x) {
    const { xs } = this;
    if (x === null) return xs.length - 1;
    const next = xs.findIndex((value) => value >= x);
    if (next < 1) return next < 0 ? xs.length - 1 : 0;
    return xs[next] - x < x - xs[next - 1] ? next : next - 1;
  }

  /** Point at x in all charts. */
  #go(x) {
    this.point(x);
    this.charts.point(x, this);
  }

  #size() {
    return { width: Math.max(160, Math.floor(this.#frame.clientWidth)), height: HEIGHTS[this.size] };
  }

  #make(logarithmic, columns) {
    this.#plot?.destroy();
    const { x, series, bands = [], draw = null, points = { size: 8 }, time = false } = this.options();
    const axis = { stroke: colour("--muted"), font: FONT, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const y = this.percent ? { range: [0, 100] } : logarithmic ? { distr: 3 } : { range: (_, low, high) => roomy(low, high) };
    const options = {
      ...this.#size(),
      padding: [12, 30, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points, bind: { dblclick: () => () => this.charts.zoom(null) } },
      scales: { x: { time, auto: false }, y },
      axes: [{ ...axis, ...x }, { ...axis, size: 58, values: (_, ticks) => ticks.map((value) => (value === null ? "" : tick(value))) }],
      series: [{}, ...series],
      bands,
      hooks: { draw: draw ? [draw] : [], setCursor: [(plot) => this.#pointed(plot)], setSelect: [(plot) => this.#selected(plot)] },
    };
    this.#plot = new uPlot(options, [this.xs, ...columns], this.#frame);
  }

  #pointed(plot) {
    const { idx, event } = plot.cursor;
    // Only what the pointer does here: charts that follow must not lead.
    if (!event) return;
    const x = idx === null || idx === undefined ? null : this.xs[idx];
    this.cursor = x;
    this.read(x);
    this.charts.point(x, this);
  }

  #selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.charts.zoom(range);
  }

  #key(event) {
    const { xs } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.#frame || !xs.length) return;
    const here = this.indexAt(this.cursor);
    const [min, max] = this.charts.range ?? [xs[0], xs.at(-1)];
    const middle = this.cursor ?? (min + max) / 2;
    const zoom = (factor) => [Math.max(xs[0], middle - ((max - min) / 2) * factor), Math.min(xs.at(-1), middle + ((max - min) / 2) * factor)];
    const step = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: here - step, ArrowRight: here + step, Home: 0, End: xs.length - 1 }[event.key];
    if (to !== undefined) {
      this.#go(xs[Math.min(xs.length - 1, Math.max(0, to))]);
      announce(this.spoken());
    } else if (event.key === "+" || event.key === "=") {
      this.charts.zoom(zoom(0.5));
    } else if (event.key === "-") {
      const wider = zoom(2);
      this.charts.zoom(wider[0] <= xs[0] && wider[1] >= xs.at(-1) ? null : wider);
    } else if (event.key === "0") {
      this.charts.zoom(null);
    } else {
      return;
    }
    event.preventDefault();
  }
}
