// SPDX-License-Identifier: Apache-2.0
// The lines of a log that has any number of them: those that are seen exist, and are asked for when they are.

import { el, fill, put } from "../dom.js";
import { plain } from "../format.js";

const CHUNK = 200;
const KEPT = 60;
const BEYOND = 40;
/** Browsers do not lay out elements of any height: above it, one step of the scroll bar is more than one line. */
const MOST_PIXELS = 6_000_000;
const COLOURS = 6;

export class LogLines {
  #fetch;
  #onFollow;
  #total = 0;
  #names = [];
  #chunks = new Map();
  #asked = new Set();
  #height = 19;
  #frame = 0;
  #words = "";
  #marked = -1;
  #observer;
  /** Whether the end is kept in sight. */
  follow = true;
  wrap = false;

  /**
   * @param fetch called with the number of a line and a count; a promise of `Lines`
   * @param onFollow called when scrolling begins or ends to follow
   */
  constructor(fetch, onFollow) {
    this.#fetch = fetch;
    this.#onFollow = onFollow;
    this.window = el("span.log-window");
    this.space = el("span.log-space", {}, this.window);
    // Lines come fast: a screen reader reads them on demand only.
    this.node = el("pre.log.mono", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log" }, this.space);
    this.node.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#observer = new ResizeObserver(() => this.#later());
    this.#observer.observe(this.node);
  }

  close() {
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  get total() {
    return this.#total;
  }

  clear() {
    this.#total = 0;
    this.#chunks.clear();
    this.#asked.clear();
    this.#marked = -1;
    this.#words = "";
    this.window.filledWith = null;
    this.#draw();
  }

  /** Take in an answer: the number of lines, and those that it has. */
  take(lines) {
    this.#total = lines.total;
    this.#names = lines.names;
    lines.texts.forEach((text, place) => {
      const number = lines.first + place;
      const chunk = Math.floor(number / CHUNK);
      if (!this.#chunks.has(chunk)) this.#chunks.set(chunk, new Map());
      this.#chunks.get(chunk).set(number, { text: plain(text), time: lines.times[place], source: lines.sources[place] });
    });
    this.#later();
  }

  /** Mark a text in all lines, and one line that has it, which is scrolled to; -1: none. */
  mark(words, number) {
    this.#words = words.toLowerCase();
    this.#marked = number;
    if (number >= 0) {
      this.setFollow(false);
      this.#goTo(Math.max(0, number - Math.floor(this.#visible / 3)));
    }
    this.window.filledWith = null;
    this.#later();
  }

  setFollow(on) {
    this.follow = on;
    if (on) this.#toEnd();
    this.#onFollow(on);
  }

  setWrap(on) {
    this.wrap = on;
    this.node.classList.toggle("wrapped", on);
    this.window.filledWith = null;
    this.#later();
  }

  get #visible() {
    return Math.max(1, Math.floor(this.node.clientHeight / this.#height));
  }

  get #scale() {
    return Math.max(1, (this.#total * this.#height) / MOST_PIXELS);
  }

  /** Whether the first line that is seen lies at the upper edge; else the window lies where its lines are. */
  get #snaps() {
    return this.wrap || this.#scale > 1;
  }

  #goTo(number) {
    this.node.scrollTop = (number * this.#height) / this.#scale;
  }

  #toEnd() {
    this.node.scrollTop = this.node.scrollHeight;
    this.#later();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.node;
    const atEnd = scrollHeight - scrollTop - clientHeight < 30;
    if (atEnd !== this.follow) {
      this.follow = atEnd;
      this.#onFollow(atEnd);
    }
    this.#later();
  }

  #later() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#height = Number.parseFloat(getComputedStyle(this.node).lineHeight) || this.#height;
    const height = `${Math.ceil((this.#total * this.#height) / this.#scale)}px`;
    if (this.space.style.height !== height) {
      this.space.style.height = height;
      if (this.follow) this.node.scrollTop = this.node.scrollHeight;
    }
    const { scrollTop, scrollHeight, clientHeight } = this.node;
    const atEnd = scrollHeight - scrollTop - clientHeight < 2;
    const top = Math.min(this.#total, Math.floor((scrollTop * this.#scale) / this.#height));
    const above = this.#snaps && !atEnd ? 0 : BEYOND;
    const first = Math.max(0, (atEnd ? this.#total - this.#visible - 1 : top) - above);
    const last = Math.min(this.#total, top + this.#visible + 2 + BEYOND);
    this.#want(first, last);
    const shown = [];
    for (let number = first; number < last; number += 1) shown.push([number, this.#chunks.get(Math.floor(number / CHUNK))?.get(number)]);
    const key = `${first} ${last} ${shown.filter(([, line]) => line).length} ${this.#words} ${this.#marked} ${this.#names.length}`;
    fill(this.window, key, () => shown.map(([number, line]) => this.#line(number, line)));
    const begin = this.#snaps ? (atEnd ? scrollHeight - this.window.offsetHeight - 24 : scrollTop) : first * this.#height;
    this.window.style.transform = `translateY(${Math.max(0, begin)}px)`;
  }

  #line(number, line) {
    const marked = number === this.#marked ? "marked" : null;
    if (!line) return el("span.log-line", {}, "\u2026\n");
    const several = this.#names.length > 1;
    const name = several ? el("span.log-rank", { dataset: { series: String((line.source % COLOURS) + 1) } }, `[${this.#names[line.source]}] `) : null;
    return el("span.log-line", { title: line.time, dataset: { number: String(number) }, "data-marked": marked }, name, ...this.#parts(line.text), "\n");
  }

  /** The text of a line, with what was searched for marked. */
  #parts(text) {
    if (!this.#words) return [text];
    const lower = text.toLowerCase();
    // Some letters change their length with their case; then nothing is marked rather than the wrong part.
    if (lower.length !== text.length) return [text];
    const parts = [];
    let from = 0;
    for (let at = lower.indexOf(this.#words); at >= 0; at = lower.indexOf(this.#words, from)) {
      parts.push(text.slice(from, at), el("mark", {}, text.slice(at, at + this.#words.length)));
      from = at + this.#words.length;
    }
    return [...parts, text.slice(from)];
  }

  /** Ask for the lines of a range that are not held, and let go of those that are far away. */
  async #want(first, last) {
    const near = Math.floor(first / CHUNK);
    const wanted = [];
    for (let chunk = near; chunk * CHUNK < last; chunk += 1) {
      const size = Math.min(CHUNK, this.#total - chunk * CHUNK);
      if ((this.#chunks.get(chunk)?.size ?? 0) < size && !this.#asked.has(chunk)) wanted.push(chunk);
    }
    if (this.#chunks.size > KEPT) {
      const far = [...this.#chunks.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
      for (const chunk of far.slice(0, this.#chunks.size - KEPT)) this.#chunks.delete(chunk);
    }
    for (const chunk of wanted) {
      this.#asked.add(chunk);
      try {
        const lines = await this.#fetch(chunk * CHUNK, CHUNK);
        if (lines) this.take(lines);
      } finally {
        this.#asked.delete(chunk);
      }
    }
  }
}
