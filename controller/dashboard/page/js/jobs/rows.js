// SPDX-License-Identifier: Apache-2.0
// Rows of a list, one below the other. Those out of sight are not laid out (CSS), nor updated each second.

import { put } from "../dom.js";

export class Rows {
  #body;
  #make;
  #update;
  #items = [];
  #rows = new Map();
  #frame = 0;
  #sight = new IntersectionObserver((entries) => this.#look(entries), { rootMargin: "200px" });
  #seen = new Set();

  /**
   * @param body element with the rows
   * @param make a new row
   * @param update called with a row and its item, whenever they may differ
   */
  constructor(body, make, update) {
    this.#body = body;
    this.#make = make;
    this.#update = update;
  }

  close() {
    this.#sight.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /** Items with `key`, in their order. */
  set items(items) {
    this.#items = items;
    this.draw();
  }

  /** The row of an item, scrolled to where it is seen; undefined if there is none. */
  reveal(index) {
    if (!this.#items[index]) return undefined;
    this.#draw();
    const row = this.#rows.get(this.#items[index].key);
    row.scrollIntoView({ block: "nearest" });
    return row;
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

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const focused = this.#body.contains(document.activeElement) ? document.activeElement : null;
    const keys = new Set(this.#items.map(({ key }) => key));
    for (const [key, row] of this.#rows) if (!keys.has(key)) this.#drop(key, row);
    let next = this.#body.firstElementChild;
    this.#items.forEach((item, index) => {
      const row = this.#rows.get(item.key) ?? this.#added(item.key);
      if (row === next) next = row.nextElementSibling;
      else this.#body.insertBefore(row, next);
      // The head is row 1.
      put(row, "aria-rowindex", index + 2);
      // What has the focus is updated also out of sight: it may be the one that Tab goes to.
      if (this.#seen.has(row) || row.shown !== item.row || row.contains(focused)) this.#update(row, item);
      row.shown = item.row;
    });
    if (focused && document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
  }

  #added(key) {
    const row = this.#make();
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
