// SPDX-License-Identifier: Apache-2.0
// Rows of a list. Up to a thousand all exist, so that the browser finds text in them; of a longer list only those that
// are seen. The table keeps its meaning: each row says its place of how many.

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

  /**
   * @param body element with the rows; its height becomes that of all rows
   * @param make called with a key: a new row
   * @param update called with a row and its item, whenever they may differ
   */
  constructor(body, make, update) {
    this.#body = body;
    this.#make = make;
    this.#update = update;
    this.#observer = new ResizeObserver(() => this.#measure());
    this.#observer.observe(body);
    addEventListener("scroll", this.draw, { passive: true });
    addEventListener("resize", this.draw);
    this.#measure();
  }

  close() {
    this.#observer.disconnect();
    removeEventListener("scroll", this.draw);
    removeEventListener("resize", this.draw);
    cancelAnimationFrame(this.#frame);
  }

  /** Items with `key`, in their order. */
  set items(items) {
    this.#items = items;
    this.#body.style.height = `${items.length * this.#height}px`;
    this.draw();
  }

  /** The row of an item, scrolled to where it is seen; undefined if there is none. */
  reveal(index) {
    const item = this.#items[index];
    if (!item) return undefined;
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

  #measure() {
    const height = Number.parseFloat(getComputedStyle(this.#body).getPropertyValue("--row")) || 64;
    if (height !== this.#height) {
      this.#height = height;
      this.items = this.#items;
    }
  }

  #draw(wanted = -1) {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const top = this.#body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.#height) - BEYOND);
    const last = Math.min(this.#items.length, Math.ceil((innerHeight - top) / this.#height) + BEYOND);
    const focused = this.#body.contains(document.activeElement) ? document.activeElement : null;
    const kept = focused?.closest("[data-key]")?.dataset.key;
    const isWhole = this.#items.length <= WHOLE;
    const isSeen = (item, index) => (index >= first && index < last) || index === wanted || item.key === kept;
    const shown = [];
    this.#items.forEach((item, index) => {
      if (isWhole || isSeen(item, index)) shown.push([item, index]);
    });
    const keys = new Set(shown.map(([item]) => item.key));
    for (const [key, row] of this.#rows) {
      if (!keys.has(key)) {
        row.remove();
        this.#rows.delete(key);
      }
    }
    // In the order of the list also in the document, which is what screen readers go by.
    let next = this.#body.firstElementChild;
    for (const [item, index] of shown) {
      let row = this.#rows.get(item.key);
      const isNew = !row;
      if (isNew) {
        row = this.#make(item.key);
        row.dataset.key = item.key;
        this.#rows.set(item.key, row);
      }
      if (row === next) next = row.nextElementSibling;
      else this.#body.insertBefore(row, next);
      const place = `translateY(${index * this.#height}px)`;
      if (row.style.transform !== place) row.style.transform = place;
      // The head is row 1.
      put(row, "aria-rowindex", index + 2);
      // What is not seen changes when it is seen, or the whole list would be laid out each second.
      if (isNew || row.item !== item.row || isSeen(item, index)) this.#update(row, item);
      row.item = item.row;
    }
    if (focused && document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
  }
}
