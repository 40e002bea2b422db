// SPDX-License-Identifier: Apache-2.0
// One curve: drawn by uPlot, readable by keyboard, and as a table.

import { announce, el, fill, put, say } from "../dom.js";
import { NONE, clock, counted, number, tick } from "../format.js";
import { PROGRESS, titleOf } from "./series.js";

const HEIGHT = 208;
const TABLE_ROWS = 60;
const SHORTEST_SECONDS = 20;
const probe = document.createElement("span");

/** Texts of times, by the distance of their ticks in seconds; the second is added at the first tick of a day. */
const TIMES = [
  [86400, "{MMM} {D}", null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

/** A colour of the theme as the canvas understands it. */
export function colour(variable) {
  if (!probe.isConnected) {
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${variable})`;
  return getComputedStyle(probe).color;
}

export class Chart {
  #name;
  #group;
  #plot = null;
  #shape = "";
  #data = null;
  #cursor = null;
  #by = "";
  #frame;
  #observer;

  /** @param group what charts share: `series`, `by`, `logarithmic`, `range`, `zoom(range, from)`, `point(x, from)` */
  constructor(name, group, place) {
    this.#name = name;
    this.#group = group;
    this.value = el("span.chart-value.number");
    this.where = el("span.chart-where.muted.number");
    this.#frame = el("div.chart-frame", {
      tabindex: "0",
      role: "group",
      "aria-roledescription": "chart",
      onkeydown: (event) => this.#key(event),
      onblur: () => this.#go(null),
    });
    this.body = el("div.table-scroll", { tabindex: "0", role: "group", "aria-label": `Values of ${titleOf(name)}` });
    this.details = el("details.values", { ontoggle: () => this.#table() }, el("summary", {}, "Values as a table"), this.body);
    const head = el("figcaption.chart-head", {}, el("h3", {}, titleOf(name)), this.value, this.where);
    this.node = el("figure.chart.card", { dataset: { series: String((place % 6) + 1) } }, head, this.#frame, this.details);
    this.#observer = new ResizeObserver(() => this.#plot?.setSize(this.#size()));
    this.#observer.observe(this.#frame);
  }

  close() {
    this.#observer.disconnect();
    this.#plot?.destroy();
    this.node.remove();
  }

  /** Draw again with other colours or axes. */
  reshape() {
    this.#shape = "";
    this.draw();
  }

  draw() {
    const { series, by, logarithmic, attempt } = this.#group;
    this.#data = series.drawn(this.#name, by, attempt);
    const { segments, band } = this.#data;
    const columns = this.#columns();
    const positive = logarithmic && this.#name !== PROGRESS && columns.flat().every((value) => value === null || value > 0);
    const shape = [by, positive, band !== null, segments.map(({ begins }) => begins)].join();
    if (shape !== this.#shape || !this.#plot) this.#make(shape, by, positive);
    this.#plot.setData([this.#data.xs, ...columns], false);
    this.range();
    // What is read stays where it is when a report comes; another axis has other places.
    if (this.#by !== by) this.#cursor = null;
    this.#by = by;
    this.#read(this.#cursor);
    this.#describe();
    if (this.details.open) this.#table();
  }

  /** The curve of each segment, then the edges of its band. */
  #columns() {
    const { columns, band } = this.#data;
    return band === null ? columns : [...columns, ...band.lows, ...band.highs];
  }

  /** Show the range that all charts share. */
  range() {
    const xs = this.#data?.xs;
    if (!xs?.length || !this.#plot) return;
    // A single point lies in the middle, and the first points do not fill the whole width: labels would be the same.
    const [span, least] = [xs.at(-1) - xs[0], this.#group.by === "time" ? SHORTEST_SECONDS : 2];
    const all = span > 0 ? [xs[0], Math.max(xs.at(-1), xs[0] + least)] : [xs[0] - least / 2, xs[0] + least / 2];
    const [min, max] = this.#group.range ?? all;
    this.#plot.setScale("x", { min, max });
  }

  /** Another chart points at x. */
  point(x) {
    this.#read(x);
    if (!this.#plot || !this.#data.xs.length) return;
    const left = x === null ? -10 : this.#plot.valToPos(x, "x");
    this.#plot.setCursor({ left, top: x === null ? -10 : 10 }, false);
  }

  /** Point at x in all charts; null: nowhere. */
  #go(x) {
    this.point(x);
    this.#group.point(x, this);
  }

  #size() {
    return { width: Math.max(160, Math.floor(this.#frame.clientWidth)), height: HEIGHT };
  }

  #make(shape, by, logarithmic) {
    this.#plot?.destroy();
    this.#shape = shape;
    const line = colour(`--series-${this.node.dataset.series}`);
    const [muted, grid] = [colour("--muted"), colour("--line")];
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: muted, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const count = this.#data.segments.length;
    const percent = this.#name === PROGRESS;
    const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
    const edges = this.#data.band === null ? [] : new Array(2 * count).fill(edge);
    const bands = edges.length ? this.#data.segments.map((_, place) => ({ series: [1 + 2 * count + place, 1 + count + place], fill: faint(line) })) : [];
    this.#plot = new uPlot(
      {
        ...this.#size(),
        padding: [12, 30, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          points: { size: 8 },
          bind: { dblclick: () => () => this.#group.zoom(null) },
        },
        scales: {
          x: { time: by === "time", auto: false },
          y: percent ? { range: [0, 100] } : logarithmic ? { distr: 3 } : { range: (_, low, high) => roomy(low, high) },
        },
        axes: [
          { ...axis, space: 90, size: 40, gap: 10, values: by === "time" ? TIMES : (_, ticks) => ticks.map((value) => number(value)) },
          { ...axis, size: 58, values: (_, ticks) => ticks.map((value) => (value === null ? "" : tick(value))) },
        ],
        series: [
          {},
          ...this.#data.segments.map((_, place) => {
            // Earlier attempts are dashed.
            const now = place === count - 1;
            return { stroke: line, width: 2, alpha: now ? 1 : 0.6, dash: now ? [] : [6, 4], spanGaps: true, points: { size: 5 } };
          }),
          ...edges,
        ],
        bands,
        hooks: {
          draw: [(plot) => this.#marks(plot, muted, line)],
          setCursor: [(plot) => this.#pointed(plot)],
          setSelect: [(plot) => this.#selected(plot)],
        },
      },
      [this.#data.xs, ...this.#columns()],
      this.#frame,
    );
  }

  #pointed(plot) {
    const { idx, event } = plot.cursor;
    // Only what the pointer does here: charts that follow must not lead.
    if (!event) return;
    const x = idx === null || idx === undefined ? null : this.#data.xs[idx];
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
    const { series, by } = this.#group;
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
      ctx.fillText("×", plot.valToPos(this.#data.xs[index], "x", true), bbox.top + bbox.height - 3 * ratio);
    }
    ctx.restore();
  }

  /** The last point at or before x; the last of all for null. */
  #indexAt(x) {
    const { xs } = this.#data;
    if (x === null) return xs.length - 1;
    let found = xs.findIndex((value) => value > x) - 1;
    if (found === -2) found = xs.length - 1;
    if (found >= 0 && found + 1 < xs.length && xs[found + 1] - x < x - xs[found]) found += 1;
    return Math.max(0, found);
  }

  #read(x) {
    this.#cursor = x;
    const index = this.#indexAt(x);
    say(this.value, index < 0 ? NONE : this.#valueAt(index));
    say(this.where, x === null || index < 0 ? "" : this.#placeOf(index));
  }

  #valueAt(index) {
    if (this.#data.notFinite.includes(index)) return "not finite";
    const found = this.#data.columns.map((column) => column[index]).filter((value) => value !== null);
    return found.length ? number(found.at(-1)) + (this.#name === PROGRESS ? "%" : "") : NONE;
  }

  #placeOf(index) {
    const { series, by } = this.#group;
    const x = this.#data.xs[index];
    const source = this.#data.sources[index];
    if (by === "step") return source < 0 ? `step ${number(x)}` : `step ${number(x)} · ${clock(series.times[source])}`;
    const step = source < 0 ? null : series.steps[source];
    return step === null ? clock(x) : `step ${number(step)} · ${clock(x)}`;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.#frame || !this.#data?.xs.length) return;
    const { xs } = this.#data;
    const here = this.#indexAt(this.#cursor);
    const [min, max] = this.#group.range ?? [xs[0], xs.at(-1)];
    const middle = this.#cursor ?? (min + max) / 2;
    const zoom = (factor) => [Math.max(xs[0], middle - ((max - min) / 2) * factor), Math.min(xs.at(-1), middle + ((max - min) / 2) * factor)];
    const step = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: here - step, ArrowRight: here + step, Home: 0, End: xs.length - 1 }[event.key];
    if (to !== undefined) {
      this.#go(xs[Math.min(xs.length - 1, Math.max(0, to))]);
      announce(`${this.value.textContent}, ${this.where.textContent}`);
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

  #describe() {
    const values = this.#data.columns.flat().filter((value) => value !== null);
    const title = titleOf(this.#name);
    if (!values.length) return put(this.#frame, "aria-label", `${title}: no finite values`);
    const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const text = `${title}: ${counted(values.length, "point")}, lowest ${number(low)}, highest ${number(high)}, last ${this.#valueAt(this.#data.xs.length - 1)}. Arrow keys read points; plus and minus zoom.`;
    return put(this.#frame, "aria-label", text);
  }

  #table() {
    if (!this.details.open || !this.#data) return;
    const { xs, notFinite, columns } = this.#data;
    const every = Math.max(1, Math.ceil(xs.length / TABLE_ROWS));
    // The last one stays, and the page says what is left out.
    const shown = xs.map((_, index) => index).filter((index) => (xs.length - 1 - index) % every === 0);
    const key = [this.#shape, every, xs.length, xs.at(-1), notFinite.length, columns.at(-1)?.at(-1)].join();
    fill(this.body, key, () => {
      const { series } = this.#group;
      const caption = every === 1 ? "All points" : `Every ${every}th of ${xs.length} points`;
      const row = (index) => {
        const source = this.#data.sources[index];
        const time = source >= 0 ? clock(series.times[source]) : this.#group.by === "time" ? clock(xs[index]) : NONE;
        const step = source >= 0 ? number(series.steps[source]) : NONE;
        return el("tr", {}, el("td", {}, time), el("td", {}, step), el("td", {}, this.#valueAt(index)));
      };
      const head = el("tr", {}, ...["Time", "Step", titleOf(this.#name)].map((text) => el("th", { scope: "col" }, text)));
      return el("table.plain.number", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...shown.map(row)));
    });
  }
}

/** The colour of a line, for the area around it. */
function faint(line) {
  return line.replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)");
}

/** A little room above and below; a flat curve lies in the middle. */
export function roomy(low, high) {
  if (low === null || high === null) return [0, 1];
  const span = high - low;
  if (!Number.isFinite(span)) return [low, high];
  const room = span > 0 ? span * 0.08 : Math.abs(low) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}
