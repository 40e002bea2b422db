// SPDX-License-Identifier: Apache-2.0
// Drawings of a search: the best value over trials, all parameters beside each other, and each against the value.
//
// All of it is in the table of trials, too; a drawing is a picture with a description for screen readers.

import { draw, el, put } from "../dom.js";
import { number, tick } from "../format.js";
import { hrefOf } from "../jobs/row.js";

const STAR = "M0 -7 L2 -2.2 7 -2.2 3 1 4.6 6 0 3 -4.6 6 -3 1 -7 -2.2 -2 -2.2Z";
const EDGE = { top: 14, right: 18, bottom: 34, left: 58 };

/** Where the values of a parameter or of the objective lie on an axis, as a share from 0 to 1. */
export class Scale {
  /** @param choices of a parameter that is no number; `values` are those that there are */
  constructor({ title, choices = [], logarithmic = false }, values) {
    Object.assign(this, { title, choices });
    const known = values.filter(Number.isFinite);
    this.logarithmic = logarithmic && known.every((value) => value > 0);
    const [low, high] = known.length ? [Math.min(...known), Math.max(...known)].map((value) => this.#on(value)) : [0, 1];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 0.5;
    Object.assign(this, { low: low - room, high: high + room });
  }

  /** The share of a value; null: there is none. */
  at(value) {
    if (this.choices.length) {
      const place = this.choices.indexOf(value);
      return place < 0 ? null : (place + 0.5) / this.choices.length;
    }
    const parsed = value === null || value === undefined || value === "" ? Number.NaN : Number(value);
    return Number.isFinite(parsed) ? (this.#on(parsed) - this.low) / (this.high - this.low) : null;
  }

  /** Shares and texts of what is written at the axis: at most so many. */
  ticks(most) {
    if (this.choices.length) {
      const step = Math.ceil(this.choices.length / most);
      return this.choices.filter((_, place) => place % step === 0).map((text) => [this.at(text), short(text)]);
    }
    const round = this.logarithmic ? decades(this.low, this.high, most) : rounded(this.low, this.high, most);
    return round.map((value) => [this.at(value), tick(value)]);
  }

  #on(value) {
    return this.logarithmic ? Math.log10(value) : value;
  }
}

/** Round numbers from low to high, about so many. */
function rounded(low, high, most) {
  const least = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
  const found = [];
  for (let place = Math.ceil(low / step); place * step <= high; place += 1) found.push(Number((place * step).toPrecision(6)));
  return found;
}

/** Powers of ten between two exponents; where there are not two of them, other numbers. */
function decades(low, high, most) {
  const step = Math.ceil((high - low) / most);
  const found = [];
  for (let power = Math.ceil(low); power <= high; power += step) found.push(Number((10 ** power).toPrecision(6)));
  return found.length > 1 ? found : rounded(10 ** low, 10 ** high, most);
}

/** A drawing that is as wide as its place. `paint(svg, width, height)` draws it. */
export class Drawing {
  #paint = null;
  #width = 0;
  #height;

  constructor(title, height) {
    this.#height = height;
    this.svg = draw("svg", { role: "img", class: "drawing" });
    this.svg.addEventListener("click", ({ target }) => {
      if (target.dataset.href) location.hash = target.dataset.href;
    });
    this.node = el("figure.card.drawn", {}, el("figcaption", {}, el("h3", {}, title)), this.svg);
    this.observer = new ResizeObserver(() => this.#draw());
    this.observer.observe(this.node);
  }

  close() {
    this.observer.disconnect();
    this.node.remove();
  }

  show(description, paint) {
    put(this.svg, "aria-label", description);
    this.#paint = paint;
    this.#width = 0;
    this.#draw();
  }

  #draw() {
    const width = Math.floor(this.node.clientWidth) - 28;
    if (width <= 0 || width === this.#width || this.#paint === null) return;
    this.#width = width;
    put(this.svg, "viewBox", `0 0 ${width} ${this.#height}`);
    put(this.svg, "height", this.#height);
    this.svg.replaceChildren();
    this.#paint(this.svg, width, this.#height);
  }
}

/** The values of all trials by number, and the best one so far as a line. */
export function paintHistory(search, scale) {
  return (svg, width, height) => {
    const valued = search.trials.filter(({ state, value }) => state === "Complete" && value !== null);
    const x = (trial) => EDGE.left + ((trial - 0.5) / search.limit) * (width - EDGE.left - EDGE.right);
    const y = upright(scale, height);
    axis(svg, scale, width, height);
    const step = Math.max(1, Math.ceil(search.limit / Math.max(4, Math.floor(width / 60))));
    for (let trial = 1; trial <= search.limit; trial += step) svg.append(text(x(trial), height - 14, trial, "middle"));
    let best = null;
    let path = "";
    for (const { number: trial, value } of valued) {
      const better = best === null || (search.maximize ? value > best : value < best);
      if (better) best = value;
      path += path ? `H${x(trial)}V${y(best)}` : `M${x(trial)} ${y(best)}`;
    }
    if (path) svg.append(draw("path", { class: "best-line", d: `${path}H${width - EDGE.right}` }));
    for (const trial of search.trials) {
      if (trial.state === "Failed") svg.append(titled(search, trial, draw("path", { class: "cross", d: `M${x(trial.number) - 4} ${height - EDGE.bottom - 4}l8 8m0 -8l-8 8` })));
    }
    for (const trial of valued) svg.append(point(search, trial, x(trial.number), y(trial.value)));
  };
}

/** A line through the values of each trial, from parameter to parameter, to its value. The better, the stronger. */
export function paintParallel(search, scales, objective) {
  return (svg, width, height) => {
    const axes = [...scales, objective];
    const [left, right, top, bottom] = [34, 46, 34, 12];
    const x = (place) => left + (place / (axes.length - 1)) * (width - left - right);
    const y = (share) => height - bottom - share * (height - top - bottom);
    const known = search.trials.filter(({ state, value }) => state === "Complete" && value !== null);
    const ranked = [...known].sort((one, other) => (search.maximize ? one.value - other.value : other.value - one.value));
    ranked.forEach((trial, place) => {
      const shares = [...scales.map((scale) => scale.at(trial.parameters[scale.title])), objective.at(trial.value)];
      if (shares.includes(null)) return;
      const strength = 0.12 + 0.6 * (place / Math.max(1, ranked.length - 1)) ** 3;
      const line = draw("path", { class: trial.best ? "thread is-best" : "thread", "stroke-opacity": trial.best ? 1 : strength.toFixed(2), d: shares.map((share, at) => `${at ? "L" : "M"}${x(at)} ${y(share)}`).join("") });
      svg.append(titled(search, trial, line));
    });
    const room = (width - left - right) / (axes.length - 1);
    axes.forEach((scale, place) => {
      svg.append(draw("path", { class: "axis", d: `M${x(place)} ${top}V${height - bottom}` }));
      const anchor = place === 0 ? "start" : place === axes.length - 1 ? "end" : "middle";
      const from = { start: 4, middle: x(place), end: width - 4 }[anchor];
      svg.append(text(from, 16, short(scale.title, Math.max(4, Math.floor(room / 8))), anchor, "name"));
      if (room < 52) return;
      for (const [share, label] of scale.ticks(4)) svg.append(text(x(place) + 5, y(share) + 4, label, "start", "halo"));
    });
  };
}

/** The value of each trial against one of its parameters. */
export function paintScatter(search, scale, objective) {
  return (svg, width, height) => {
    const x = (share) => EDGE.left + share * (width - EDGE.left - EDGE.right);
    const y = upright(objective, height);
    axis(svg, objective, width, height);
    for (const [share, label] of scale.ticks(Math.max(2, Math.min(5, Math.floor(width / 90))))) svg.append(text(x(share), height - 14, label, "middle"));
    for (const trial of search.trials) {
      const share = scale.at(trial.parameters[scale.title]);
      if (trial.state === "Complete" && trial.value !== null && share !== null) svg.append(point(search, trial, x(share), y(trial.value)));
    }
  };
}

/** What a trial came to, in one line. */
export function wordsOf(search, trial) {
  const given = Object.entries(trial.parameters).map(([name, value]) => `${name} ${number(value)}`);
  const came = trial.value === null ? trial.state : `${search.metric} ${number(trial.value)}`;
  return [`Trial ${trial.number}: ${came}`, ...given].join(", ");
}

function upright(scale, height) {
  return (value) => height - EDGE.bottom - scale.at(value) * (height - EDGE.top - EDGE.bottom);
}

/** The vertical axis of the value, with lines across. */
function axis(svg, scale, width, height) {
  for (const [share, label] of scale.ticks(4)) {
    const y = height - EDGE.bottom - share * (height - EDGE.top - EDGE.bottom);
    svg.append(draw("path", { class: "grid", d: `M${EDGE.left} ${y}H${width - EDGE.right}` }), text(EDGE.left - 8, y + 4, label, "end"));
  }
}

function point(search, trial, x, y) {
  const mark = trial.best
    ? draw("path", { class: "star", d: STAR, transform: `translate(${x} ${y})` })
    : draw("circle", { class: "dot", cx: x, cy: y, r: 3.5 });
  return titled(search, trial, mark);
}

/** The mark of a trial. A click on it leads to its job as long as there is one; the keyboard has the links of the table. */
function titled(search, trial, mark) {
  mark.append(draw("title", {}, wordsOf(search, trial)));
  if (trial.exists) mark.dataset.href = hrefOf({ namespace: search.namespace, name: trial.name });
  return mark;
}

function text(x, y, words, anchor, kind = "") {
  return draw("text", { x, y, "text-anchor": anchor, class: kind }, String(words));
}

function short(words, most = 12) {
  return words.length > most ? `${words.slice(0, most - 1)}…` : words;
}
