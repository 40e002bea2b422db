// SPDX-License-Identifier: Apache-2.0
// Charts below each other: they share the axis, the zoom and the place that is pointed at.

import { announce, button, el, put, say } from "../dom.js";
import { counted } from "../format.js";

/** So many at first; a report may have 256 metrics. */
const FIRST = 12;

export class Charts {
  #make;
  #words;
  #zoomed;
  #charts = new Map();
  #seen = new Set();
  #names = [];
  #all = false;
  #axes;
  #log;
  #observer;
  /** What is shown of the horizontal axis; null: all of it. */
  range = null;

  /**
   * @param make called with a name, a place and this: a chart
   * @param axes `time` and `step`, in the order of their buttons
   * @param whole what the whole axis is called: `run` or `runs`
   * @param choose called with what is pressed: `by`, `logarithmic`
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
    this.tools = [el("div.choices", { role: "group", "aria-label": "Horizontal axis" }, ...this.#axes), this.#log, this.whole];
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
  showChoice({ by, logarithmic }, hasSteps) {
    for (const button of this.#axes) {
      put(button, "aria-pressed", String(button.dataset.by === by));
      button.hidden = button.dataset.by === "step" && !hasSteps;
    }
    put(this.#log, "aria-pressed", String(logarithmic));
  }

  /** Show the charts of these names, in this order. */
  show(names) {
    this.#names = names;
    const shown = this.#all ? names : names.slice(0, FIRST);
    for (const [name, chart] of this.#charts) {
      if (shown.includes(name)) continue;
      chart.close();
      this.#seen.delete(chart.node);
      this.#charts.delete(name);
    }
    shown.forEach((name, place) => {
      if (!this.#charts.has(name)) {
        const made = this.#make(name, place, this);
        this.#charts.set(name, made);
        this.#observer.observe(made.node);
      }
      const chart = this.#charts.get(name);
      if (this.grid.children[place] !== chart.node) this.grid.insertBefore(chart.node, this.grid.children[place] ?? null);
      if (this.#seen.has(chart.node)) chart.draw();
    });
    this.more.hidden = shown.length === names.length;
    say(this.more, `Show all ${counted(names.length, "curve")}`);
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
    this.show(this.#names);
    this.#charts.get(this.#names[FIRST])?.focus();
  }

  #theme = () => {
    for (const chart of this.#charts.values()) if (this.#seen.has(chart.node)) chart.reshape();
  };
}
