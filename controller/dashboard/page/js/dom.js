// SPDX-License-Identifier: Apache-2.0
// Elements. Text from the cluster becomes text nodes only: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element.
 * @param {string} tag name, with classes behind dots: `p.muted`
 * @param {Object} attributes `on…` are listeners, `dataset` an object; null, undefined and false are left out
 * @param {...(Node|string|number|null)} children
 */
export function el(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "dataset") Object.assign(made.dataset, value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** An element of a drawing. */
export function draw(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** A button. `more`: further attributes. */
export function button(text, onclick, more = {}) {
  return el("button.button", { type: "button", onclick, ...more }, text);
}

/** A part of a view with its heading; `beside`: what stands in the line of the heading. */
export function panel(id, title, beside, ...content) {
  const head = el("h2", { id: `${id}-title` }, title);
  return el("section.panel", { "aria-labelledby": `${id}-title` }, beside.length ? el("div.panel-head", {}, head, ...beside) : head, ...content);
}

/** A table of these columns. */
export function table(tag, columns, body, caption = "") {
  const head = el("tr", {}, ...columns.map((text) => el("th", { scope: "col" }, text)));
  return el(tag, {}, caption ? el("caption", {}, caption) : null, el("thead", {}, head), body);
}

/** What is wider or longer than its place: the keyboard scrolls it, too. */
export function scrolling(tag, label, ...content) {
  return el(tag, { tabindex: "0", role: "group", "aria-label": label }, ...content);
}

/** A message in place of the content, and where to go from there. */
export function emptyText(title, text, ...actions) {
  return [el("h2", {}, title), el("p", {}, text), actions.length ? el("p.actions", {}, ...actions) : null];
}

/** Set a text if it differs, so that nothing is laid out or announced again without need. */
export function say(node, text) {
  const wanted = String(text ?? "");
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Set or remove an attribute if it differs. */
export function put(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Replace the children, unless `key` is what they were made from last time. Returns whether they were replaced. */
export function fill(node, key, make) {
  if (node.filledWith === key) return false;
  node.filledWith = key;
  node.replaceChildren(...[make()].flat().filter((child) => child !== null && child !== undefined));
  return true;
}

/** What this browser keeps under a name, in `local` or `session` storage; empty: nothing, or it keeps nothing at all. */
export function kept(storage, name) {
  try {
    return globalThis[`${storage}Storage`].getItem(name) ?? "";
  } catch {
    return "";
  }
}

/** Keep a text, or forget it if it is empty; where the browser keeps nothing, it lasts as long as the page. */
export function keep(storage, name, text) {
  try {
    if (text) globalThis[`${storage}Storage`].setItem(name, text);
    else globalThis[`${storage}Storage`].removeItem(name);
  } catch {
    // As said above.
  }
}

let last = "";
/** Tell screen readers, politely. The same words twice are told once. */
export function announce(text) {
  if (text === last) return;
  last = text;
  document.getElementById("polite").textContent = text;
}
