// SPDX-License-Identifier: Apache-2.0
// Rows of a list. Up to a thousand all exist, one below the other and as high as their text, so that nothing is cut off
// and the browser finds text in all of them. Of a longer list only those that are seen exist, all of one height. The
// table keeps its meaning: each row says its place of how many.

import { put } from "../dom.js";

const BEYOND = 6;
const WHOLE = 1000;

export class VirtualRows {
  #body;
  #make;
  #update;
  #items = [];
  #rows = new Map();
  #height = 0;
  #frame = 0;
  #observer;
  #sight;
  #seen = new Set();
  #kept = null;

  /**
   * @param body element with the rows; its height becomes that of all rows
   * @param make called with a key: a new row
   * @param update called with a row and its item, whenever they may differ
   */
  constructor(body, make, update) {
    this.#body = body;
    this.#make = make;
    this.#update = update;
    this.#sight = new IntersectionObserver((entries) => this.#look(entries), { rootMargin: "200px" });
    this.#observer = new ResizeObserver(() => this.#measure());
    this.#observer.observe(body);
    addEventListener("scroll", this.draw, { passive: true });
    addEventListener("resize", this.draw);
    this.#measure();
  }

  close() {
    this.#observer.disconnect();
    this.#sight.disconnect();
    removeEventListener("scroll", this.draw);
    removeEventListener("resize", this.draw);
    cancelAnimationFrame(this.#frame);
  }

  get #isWhole() {
    return this.#items.length <= WHOLE;
  }

  /** Items with `key`, in their order. */
  set items(items) {
    this.#items = items;
    this.#body.classList.toggle("whole", this.#isWhole);
    this.#body.style.height = this.#isWhole ? "" : `${items.length * this.#height}px`;
    this.draw();
  }

  /** The row of an item, scrolled to where it is seen; undefined if there is none. */
  reveal(index) {
    const item = this.#items[index];
    if (!item) return undefined;
    if (this.#isWhole) {
      this.#draw(index);
      this.#rows.get(item.key)?.scrollIntoView({ block: "nearest" });
      return this.#rows.get(item.key);
    }
    const top = this.#body.getBoundingClientRect().top + scrollY + index * this.#height;
    const margin = 130;
    if (top - margin < scrollY) scrollTo({ top: Math.max(0, top - margin) });
    else if (top + this.#height + 20 > scrollY + innerHeight) scrollTo({ top: top + this.#height + 20 - innerHeight });
    this.#draw(index);
    return this.#rows.get(item.key);
  }

  /** Update what is seen, with the next frame. */
  draw = () => {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  };

  #look(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#seen.add(target);
      else this.#seen.delete(target);
    }
    this.draw();
  }

  #measure() {
    const height = Number.parseFloat(getComputedStyle(this.#body).getPropertyValue("--row")) || 64;
    if (height !== this.#height) {
      this.#height = height;
      this.items = this.#items;
    }
  }

  /** The places that exist, and of those the ones that are up to date. */
  #places(wanted) {
    const all = this.#items.map((_, index) => index);
    if (this.#isWhole) return all;
    const top = this.#body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.#height) - BEYOND);
    const last = Math.min(this.#items.length, Math.ceil((innerHeight - top) / this.#height) + BEYOND);
    return all.filter((index) => (index >= first && index < last) || index === wanted || this.#items[index].key === this.#kept);
  }

  #draw(wanted = -1) {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const focused = this.#body.contains(document.activeElement) ? document.activeElement : null;
    const before = this.#kept;
    this.#kept = focused?.closest("[data-key]")?.dataset.key ?? null;
    const places = this.#places(wanted);
    const keys = new Set(places.map((index) => this.#items[index].key));
    for (const [key, row] of this.#rows) {
      if (!keys.has(key)) this.#drop(key, row);
    }
    // In the order of the list also in the document, which is what screen readers go by.
    let next = this.#body.firstElementChild;
    for (const index of places) {
      const item = this.#items[index];
      const row = this.#rows.get(item.key) ?? this.#added(item.key);
      if (row === next) next = row.nextElementSibling;
      else this.#body.insertBefore(row, next);
      const place = this.#isWhole ? "" : `translateY(${index * this.#height}px)`;
      if (row.style.transform !== place) row.style.transform = place;
      // The head is row 1.
      put(row, "aria-rowindex", index + 2);
      // What is not seen is updated when it changes and when it comes in sight, and not each second.
      const isSeen = !this.#isWhole || this.#seen.has(row) || index === wanted || [this.#kept, before].includes(item.key);
      if (isSeen || row.shown !== item.row) this.#update(row, item);
      row.shown = item.row;
    }
    if (focused && document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
  }

  #added(key) {
    const row = this.#make(key);
    row.dataset.key = key;
    this.#rows.set(key, row);
    this.#sight.observe(row);
    return row;
  }

  #drop(key, row) {
    this.#sight.unobserve(row);
    this.#seen.delete(row);
    row.remove();
    this.#rows.delete(key);
  }
}
