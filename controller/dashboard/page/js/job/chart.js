// SPDX-License-Identifier: Apache-2.0
// One metric of one job: a line for each segment, with its values as a table.

import { Chart, FAINT, colour, smoothed } from "../charts/chart.js";
import { el, fill, say, scrolling, table } from "../dom.js";
import { NONE, clock, counted, number } from "../format.js";
import { PROGRESS, titleOf } from "./series.js";

const TABLE_ROWS = 60;
const COLOURS = 6;

/** Texts of times, by the distance of their ticks in seconds; the second is added at the first tick of a day. */
const TIMES = [
  [86400, "{MMM} {D}", null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

export class JobChart extends Chart {
  #data = null;
  #series;

  /** @param view has `series`, `by`, `logarithmic`, `smooth`, `attempt` */
  constructor(name, view, size, place, charts) {
    super(name, titleOf(name), view, charts, size);
    this.#series = String((place % COLOURS) + 1);
    this.percent = name === PROGRESS;
    this.value = el("span.chart-value.number");
    this.where.before(this.value);
    this.body = scrolling("div.table-scroll", `Values of ${titleOf(name)}`);
    this.details = el("details.values", { ontoggle: () => this.#table() }, el("summary", {}, "Values as a table"), this.body);
    this.node.dataset.series = this.#series;
    this.node.append(this.details);
  }

  draw() {
    super.draw();
    this.#table();
  }

  /** The curve of each segment, the same smoothed, then the edges of its band. */
  columns() {
    const { series, by, attempt, smooth } = this.view;
    this.#data = series.drawn(this.name, by, attempt);
    this.xs = this.#data.xs;
    const { columns, band } = this.#data;
    const curves = smooth ? [...columns, ...columns.map((column) => smoothed(column, smooth))] : columns;
    return band === null ? curves : [...curves, ...band.lows, ...band.highs];
  }

  shape() {
    const { segments, band } = this.#data;
    return [this.view.smooth > 0, band !== null, segments.map(({ begins }) => begins)].join();
  }

  options() {
    const { segments, band } = this.#data;
    const [count, line, time] = [segments.length, colour(`--series-${this.#series}`), this.view.by === "time"];
    const lines = segments.map((_, place) => {
      // Earlier attempts are dashed.
      const now = place === count - 1;
      return { stroke: line, width: 2, alpha: now ? 1 : 0.6, dash: now ? [] : [6, 4], spanGaps: true, points: { size: 5 } };
    });
    const faint = lines.map((one) => ({ ...one, width: 1, alpha: FAINT, points: { show: false } }));
    const curves = this.view.smooth ? [...faint, ...lines] : lines;
    const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
    const first = 1 + curves.length;
    const area = (_, place) => ({ series: [first + count + place, first + place], fill: shade(line) });
    return {
      time,
      x: { space: 90, size: 40, gap: 10, values: time ? TIMES : (_, ticks) => ticks.map((value) => number(value)) },
      series: band === null ? curves : [...curves, ...new Array(2 * count).fill(edge)],
      bands: band === null ? [] : segments.map(area),
      draw: (plot) => this.#marks(plot, colour("--muted"), line),
    };
  }

  read(x) {
    const index = this.indexAt(x);
    say(this.value, index < 0 ? NONE : this.#valueAt(index));
    say(this.where, x === null || index < 0 ? "" : this.#placeOf(index));
  }

  spoken() {
    return `${this.value.textContent}, ${this.where.textContent}`;
  }

  description() {
    const values = this.#data.columns.flat().filter((value) => value !== null);
    const title = titleOf(this.name);
    if (!values.length) return `${title}: no finite values`;
    const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    return `${title}: ${counted(values.length, "point")}, lowest ${number(low)}, highest ${number(high)}, last ${this.#valueAt(this.xs.length - 1)}. Arrow keys read points; plus and minus zoom.`;
  }

  /** Lines where an attempt begins, and a sign where a value was not finite. */
  #marks(plot, muted, line) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 12 * ratio, bbox.width, bbox.height + 12 * ratio);
    ctx.clip();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.fillStyle = muted;
    ctx.strokeStyle = muted;
    ctx.lineWidth = ratio;
    const { series, by } = this.view;
    const at = by === "step" ? series.steps : series.times;
    // The newest first: where labels have no room beside each other, it is the one to keep.
    const taken = [];
    for (const { from, begins } of this.#data.segments.slice(1).reverse()) {
      if (at[from] === null) continue;
      const x = Math.round(plot.valToPos(at[from], "x", true)) + 0.5;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const text = begins === null ? "earlier step" : `attempt ${begins}`;
      const width = ctx.measureText(text).width;
      const room = bbox.left + bbox.width - x > width + 8 * ratio;
      const left = room ? x + 4 * ratio : x - 4 * ratio - width;
      if (taken.some(([begin, end]) => left < end && left + width > begin)) continue;
      taken.push([left - 6 * ratio, left + width + 6 * ratio]);
      ctx.textAlign = "left";
      ctx.fillText(text, left, bbox.top - 2 * ratio);
    }
    ctx.textAlign = "center";
    ctx.fillStyle = line;
    for (const index of this.#data.notFinite) {
      ctx.fillText("×", plot.valToPos(this.xs[index], "x", true), bbox.top + bbox.height - 3 * ratio);
    }
    ctx.restore();
  }

  #valueAt(index) {
    if (this.#data.notFinite.includes(index)) return "not finite";
    const found = this.#data.columns.map((column) => column[index]).filter((value) => value !== null);
    return found.length ? number(found.at(-1)) + (this.percent ? "%" : "") : NONE;
  }

  #placeOf(index) {
    const { series, by } = this.view;
    const [x, source] = [this.xs[index], this.#data.sources[index]];
    if (by === "step") return source < 0 ? `step ${number(x)}` : `step ${number(x)} · ${clock(series.times[source])}`;
    const step = source < 0 ? null : series.steps[source];
    return step === null ? clock(x) : `step ${number(step)} · ${clock(x)}`;
  }

  #table() {
    if (!this.details.open || !this.#data) return;
    const { xs, notFinite, columns, sources } = this.#data;
    const { series, by } = this.view;
    const every = Math.max(1, Math.ceil(xs.length / TABLE_ROWS));
    // The last one stays, and the page says what is left out.
    const shown = xs.map((_, index) => index).filter((index) => (xs.length - 1 - index) % every === 0);
    const key = [by, this.shape(), every, xs.length, xs.at(-1), notFinite.length, columns.at(-1)?.at(-1)].join();
    fill(this.body, key, () => {
      const caption = every === 1 ? "All points" : `Every ${every}th of ${xs.length} points`;
      const row = (index) => {
        const source = sources[index];
        const time = source >= 0 ? clock(series.times[source]) : by === "time" ? clock(xs[index]) : NONE;
        const step = source >= 0 ? number(series.steps[source]) : NONE;
        return el("tr", {}, el("td", {}, time), el("td", {}, step), el("td", {}, this.#valueAt(index)));
      };
      return table("table.plain.number", ["Time", "Step", titleOf(this.name)], el("tbody", {}, ...shown.map(row)), caption);
    });
  }
}

/** The colour of a line, for the area around it. */
function shade(line) {
  return line.replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)");
}
