// SPDX-License-Identifier: Apache-2.0
// Charts below each other: they share the axis, the zoom and the place that is pointed at.

import { announce, button, el, fill, keep, kept, put, say } from "../dom.js";
import { counted } from "../format.js";

/** So many at first; a report may have 256 metrics. */
const FIRST = 12;
/** Under which this browser keeps the names of metrics that are pinned and hidden, for all jobs. */
const STORED = "curves";

export class Charts {
  #make;
  #words;
  #zoomed;
  #charts = new Map();
  #seen = new Set();
  #wanted = [];
  #choice = { pinned: [], hidden: [], ...JSON.parse(kept("local", STORED) || "{}") };
  #all = false;
  #axes;
  #log;
  #observer;
  /** What is shown of the horizontal axis; null: all of it. */
  range = null;

  /**
   * @param make called with a name, a size, a place and this: a chart
   * @param axes `time` and `step`, in the order of their buttons
   * @param whole what the whole axis is called: `run` or `runs`
   * @param choose called with what is chosen: `by`, `logarithmic`, `smooth`
   * @param zoomed called with another range
   */
  constructor(make, axes, whole, choose, zoomed = () => {}) {
    this.#make = make;
    this.#words = `The whole ${whole} ${whole === "run" ? "is" : "are"} shown`;
    this.#zoomed = zoomed;
    this.grid = el("div.charts");
    this.more = button("", () => this.#showAll(), { hidden: true });
    this.whole = button(`Whole ${whole}`, () => this.zoom(null), { disabled: true });
    this.#axes = axes.map((by) => button(by === "time" ? "Time" : "Step", () => choose({ by }), { dataset: { by } }));
    this.#log = button("Log scale", () => choose({ logarithmic: this.#log.getAttribute("aria-pressed") !== "true" }));
    this.slider = el("input.slider", { id: "smooth", type: "range", min: "0", max: "0.99", step: "0.01", oninput: () => choose({ smooth: Number(this.slider.value) }) });
    this.amount = el("output.number", { for: "smooth" });
    const smooth = el("label.smooth", { for: "smooth" }, "Smoothing", this.slider, this.amount);
    this.tools = [smooth, el("div.choices", { role: "group", "aria-label": "Horizontal axis" }, ...this.#axes), this.#log, this.whole];
    this.hidden = el("p.hidden-curves.small.muted", { hidden: true });
    // Charts that are not seen are not drawn.
    this.#observer = new IntersectionObserver((entries) => this.#watch(entries), { rootMargin: "300px" });
    addEventListener("theme", this.#theme);
  }

  close() {
    this.#observer.disconnect();
    removeEventListener("theme", this.#theme);
    for (const chart of this.#charts.values()) chart.close();
  }

  /** Show what is chosen. `hasSteps`: whether there is another axis than time. */
  showChoice({ by, logarithmic, smooth }, hasSteps) {
    this.slider.value = String(smooth);
    say(this.amount, smooth ? smooth.toFixed(2) : "off");
    for (const button of this.#axes) {
      put(button, "aria-pressed", String(button.dataset.by === by));
      button.hidden = button.dataset.by === "step" && !hasSteps;
    }
    put(this.#log, "aria-pressed", String(logarithmic));
  }

  /** Show charts in this order, but pinned ones first and large. `wanted`: `name` and `size` of each. */
  show(wanted) {
    this.#wanted = wanted;
    const { pinned, hidden } = this.#choice;
    const isPinned = ({ name }) => pinned.includes(name);
    const there = wanted.filter(({ name }) => !hidden.includes(name));
    const all = [...there.filter(isPinned).map((one) => ({ ...one, size: "large" })), ...there.filter((one) => !isPinned(one))];
    const shown = this.#all ? all : all.slice(0, FIRST);
    const sizes = new Map(shown.map(({ name, size }) => [name, size]));
    for (const [name, chart] of this.#charts) {
      if (sizes.get(name) === chart.size) continue;
      chart.close();
      this.#seen.delete(chart.node);
      this.#charts.delete(name);
    }
    shown.forEach(({ name, size }, place) => {
      if (!this.#charts.has(name)) {
        // The colour of a curve is that of its place without what is pinned or hidden.
        const made = this.#make(name, size, wanted.findIndex((one) => one.name === name), this);
        this.#charts.set(name, made);
        this.#observer.observe(made.node);
      }
      const chart = this.#charts.get(name);
      put(chart.pin, "aria-pressed", String(pinned.includes(name)));
      if (this.grid.children[place] !== chart.node) this.grid.insertBefore(chart.node, this.grid.children[place] ?? null);
      if (this.#seen.has(chart.node)) chart.draw();
    });
    this.more.hidden = shown.length === all.length;
    say(this.more, `Show all ${counted(all.length, "curve")}`);
    const gone = wanted.filter(({ name }) => hidden.includes(name));
    this.hidden.hidden = gone.length === 0;
    fill(this.hidden, JSON.stringify(gone), () => ["Hidden:", ...gone.map(({ name, title }) => button(title ?? name, () => this.toggle(name, "hidden"), { "aria-label": `Show ${title ?? name}` }))]);
  }

  /** Pin or hide a metric, or do not any more. `list`: `pinned` or `hidden`. */
  toggle(name, list) {
    const was = this.#choice[list];
    this.#choice[list] = was.includes(name) ? was.filter((one) => one !== name) : [...was, name];
    keep("local", STORED, JSON.stringify(this.#choice));
    this.show(this.#wanted);
    (this.#charts.get(name) ?? this.#charts.values().next().value)?.focus();
  }

  /** Show a range of the horizontal axis in all charts; null: all of it. */
  zoom(range) {
    const was = this.range;
    this.range = range;
    this.#zoomed(range);
    put(this.whole, "disabled", range === null);
    for (const chart of this.#charts.values()) chart.range();
    if (range === null && was !== null) announce(this.#words);
  }

  /** A chart is pointed at: the others show the same place. */
  point(x, from) {
    for (const chart of this.#charts.values()) if (chart !== from && this.#seen.has(chart.node)) chart.point(x);
  }

  #watch(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#seen.add(target);
      else this.#seen.delete(target);
      if (isIntersecting) this.#charts.get(target.dataset.metric)?.draw();
    }
  }

  #showAll() {
    this.#all = true;
    this.show(this.#wanted);
    [...this.#charts.values()][FIRST]?.focus();
  }

  #theme = () => {
    for (const chart of this.#charts.values()) if (this.#seen.has(chart.node)) chart.reshape();
  };
}
