// SPDX-License-Identifier: Apache-2.0
// The list of jobs.

import { Stream, paths } from "../api.js";
import { announce, button, el, emptyText, fill, keep, kept, put, say } from "../dom.js";
import { counted, number, sentence } from "../format.js";
import { STATES, sign, toneOf } from "../states.js";
import { ChoiceBar } from "./chosen.js";
import { makeRow, searchHref, showRow } from "./row.js";
import { COLUMNS, countStates, differing, format, keyOf, parse, select } from "./selection.js";
import { Rows } from "./rows.js";

const ANNOUNCE_MS = 700;
/** So many rows at most: a filter finds the others. */
const MOST = 1000;
/** Where the list was left, to return to it. */
let left = { key: null, scroll: 0 };
const ADDRESS = "list";
const WHOLE = "#/";

/** The address of the list as it was left, with its filter, also after a reload. */
export function listAddress() {
  return kept("session", ADDRESS) || WHOLE;
}

export class JobsView {
  #shell;
  #rows = new Map();
  #snapshot = null;
  #items = [];
  /** Of the parameters that differ among the items. */
  #names = [];
  #selection;
  #current = left.key;
  #dirty = false;
  #announceTimer = 0;
  #ticker;

  /** @param shell what `main.js` offers: `connection(connection, told)`, `link(state, detail)`, `where(cluster)` */
  constructor(root, query, shell) {
    this.#shell = shell;
    this.#selection = parse(query);
    this.#build(root);
    this.list = new Rows(this.body, () => makeRow(() => this.#chose()), (made, item) => this.#show(made, item));
    this.stream = new Stream(
      `${paths.jobs()}/stream`,
      paths.jobs(),
      { snapshot: (jobs) => this.#take(jobs), rows: (rows) => this.#patch(rows), connection: (connection) => this.#connected(connection) },
      shell.link,
    );
    this.#ticker = setInterval(this.list.draw, 1000);
    addEventListener("keydown", this.#key);
    this.#keepAddress();
  }

  /** The address has changed, as by the way back. */
  ask(query) {
    if (format(this.#selection) !== format(parse(query))) this.#choose(parse(query));
  }

  #keepAddress() {
    keep("session", ADDRESS, this.#address() === WHOLE ? "" : this.#address());
  }

  #address() {
    const asked = format(this.#selection);
    return `#/${asked ? `?${asked}` : ""}`;
  }

  close() {
    left = { key: this.#current, scroll: scrollY };
    this.stream.close();
    this.list.close();
    clearInterval(this.#ticker);
    clearTimeout(this.#announceTimer);
    removeEventListener("keydown", this.#key);
  }

  #build(root) {
    const selection = this.#selection;
    this.title = el("h1", { tabindex: "-1" }, "Jobs");
    this.total = el("span.total.muted.number");
    this.text = el("input.field.find", {
      type: "search",
      placeholder: "Filter by name, runtime, reason",
      "aria-label": "Filter by name, namespace, runtime, state or reason",
      "aria-keyshortcuts": "/",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.#choose({ text: this.text.value }),
    });
    this.text.value = selection.text;
    this.namespaces = el("select.choice", {
      "aria-label": "Namespace",
      onchange: () => this.#choose({ namespace: this.namespaces.value }),
    });
    this.sort = el(
      "select.choice.sort",
      { "aria-label": "Sort by", onchange: () => this.#sortBy(...this.sort.value.split(".")) },
      COLUMNS.flatMap(({ id, title }) => [
        el("option", { value: `${id}.up` }, `Sort: ${title} ↑`),
        el("option", { value: `${id}.down` }, `Sort: ${title} ↓`),
      ]),
    );
    this.searches = el("nav.search-list", { "aria-label": "Searches", hidden: true });
    this.chips = el("div.chips", { role: "group", "aria-label": "States" });
    this.heads = new Map(
      COLUMNS.map(({ id, title }) => {
        const button = el("button.head-button", { type: "button", onclick: () => this.#sortBy(id) }, title);
        return [id, el(`div.cell.cell-${id}`, { role: "columnheader" }, button)];
      }),
    );
    this.body = el("div.rows", { role: "rowgroup" });
    this.choices = new ChoiceBar(() => {
      this.#chose();
      this.title.focus({ preventScroll: true });
    });
    this.table = el(
      "div.table.card",
      { role: "table", "aria-label": "TrainJobs" },
      el("div.head-group", { role: "rowgroup" }, el("div.row.head", { role: "row", "aria-rowindex": "1" }, el("div.cell.cell-choose", { role: "columnheader" }, el("span.unseen", {}, "Compare")), ...this.heads.values())),
      this.body,
    );
    this.empty = el("div.empty.card", { hidden: true });
    this.undecodable = el("p.note.muted", { hidden: true });
    this.cut = el("p.note.muted", { hidden: true }, `The list ends after ${number(MOST)} jobs. Filter it to see others.`);
    this.loading = el("div.empty.card", {}, "Reading the jobs …");
    this.tools = el("div.tools", {}, this.text, this.namespaces, this.sort);
    root.replaceChildren(
      el("div.list-head", {}, this.title, this.total, this.tools),
      this.chips,
      this.searches,
      this.loading,
      this.table,
      this.cut,
      this.empty,
      this.undecodable,
      this.choices.node,
    );
    this.choices.show();
    this.table.hidden = true;
    this.tools.hidden = true;
    this.chips.hidden = true;
    this.body.addEventListener("focusin", (event) => {
      this.#current = event.target.closest("[data-key]")?.dataset.key ?? this.#current;
      this.list.draw();
    });
    this.body.addEventListener("click", (event) => {
      // The whole row is a target for the mouse; its link is the one for everybody else.
      const row = event.target.closest(".row");
      if (row && !event.target.closest("a, .cell-choose") && !getSelection().toString()) row.querySelector("a").click();
    });
  }

  #take(jobs) {
    const first = this.#snapshot === null;
    this.#snapshot = jobs;
    this.#rows = new Map(jobs.jobs.map((row) => [keyOf(row), row]));
    this.#shell.where(jobs.cluster);
    this.#refresh();
    this.#connected(jobs.connection);
    if (first && left.key !== null) {
      scrollTo({ top: left.scroll });
      this.#focus(this.#items.findIndex((item) => item.key === left.key));
    }
  }

  #connected(connection) {
    if (this.#snapshot !== null) {
      this.#snapshot = { ...this.#snapshot, connection };
      this.#showEmpty(this.#rows.size);
    }
    this.#shell.connection(connection, this.#rows.size === 0 && troubleOf(connection) !== null);
  }

  #patch({ changed, deleted }) {
    for (const reference of deleted) this.#rows.delete(keyOf(reference));
    for (const row of changed) this.#rows.set(keyOf(row), row);
    if (this.#dirty) return;
    this.#dirty = true;
    requestAnimationFrame(() => {
      this.#dirty = false;
      this.#refresh();
    });
  }

  #refresh() {
    const rows = [...this.#rows.values()];
    const selection = this.#selection;
    const found = select(rows, selection);
    this.#items = found.slice(0, MOST);
    this.cut.hidden = found.length <= MOST;
    this.#names = differing(this.#items.map(({ row }) => row));
    put(this.table, "data-parameters", this.#names.length ? "yes" : null);
    if (!this.#items.some((item) => item.key === this.#current)) this.#current = this.#items[0]?.key ?? null;
    this.list.items = this.#items;
    put(this.table, "aria-rowcount", found.length + 1);
    for (const [id, head] of this.heads) {
      put(head, "aria-sort", id === selection.column ? (selection.descending ? "descending" : "ascending") : null);
    }
    this.sort.value = `${selection.column}.${selection.descending ? "down" : "up"}`;
    const all = rows.length === found.length;
    say(this.total, all ? number(rows.length) : `${number(found.length)} of ${number(rows.length)}`);
    document.title = `${counted(rows.length, "job")} · Trainwright`;
    this.#showChips(rows);
    this.#showNamespaces(rows);
    this.#showSearches(rows);
    this.#showEmpty(rows.length);
  }

  #showChips(rows) {
    const counts = countStates(rows);
    const shown = STATES.filter((state) => counts.has(state) || this.#selection.states.has(state));
    fill(this.chips, shown.join(), () =>
      shown.map((state) => {
        const attributes = { type: "button", dataset: { tone: toneOf(state), state }, onclick: () => this.#toggle(state) };
        return el("button.chip", attributes, sign(state), el("span", {}, state), el("span.chip-count.number"));
      }),
    );
    for (const chip of this.chips.children) {
      put(chip, "aria-pressed", String(this.#selection.states.has(chip.dataset.state)));
      say(chip.lastChild, counts.get(chip.dataset.state) ?? 0);
    }
  }

  #showNamespaces(rows) {
    const names = [...new Set(rows.map((row) => row.namespace))].sort();
    const chosen = this.#selection.namespace;
    if (chosen && !names.includes(chosen)) names.push(chosen);
    this.namespaces.hidden = names.length < 2;
    fill(this.namespaces, names.join(), () => [
      el("option", { value: "" }, "All namespaces"),
      ...names.map((name) => el("option", { value: name }, name)),
    ]);
    this.namespaces.value = chosen;
  }

  /** Links to the searches that have trials here. */
  #showSearches(rows) {
    const found = new Map(rows.filter((row) => row.search).map((row) => [searchHref(row), row.search]));
    this.searches.hidden = found.size === 0;
    fill(this.searches, JSON.stringify([...found]), () => [el("span.muted", {}, "Searches:"), ...[...found].map(([href, name]) => el("a", { href }, name))]);
  }

  #showEmpty(count) {
    const { connection, cluster, undecodable } = this.#snapshot;
    const none = count === 0;
    const trouble = troubleOf(connection);
    this.loading.hidden = !(none && connection.state === "connecting");
    this.tools.hidden = none;
    this.chips.hidden = none;
    this.table.hidden = this.#items.length === 0;
    this.empty.hidden = this.#items.length > 0 || !this.loading.hidden;
    const where = cluster.namespace ? `in namespace ${cluster.namespace}` : "in this cluster";
    fill(this.empty, JSON.stringify([none, connection.state, connection.message, where]), () => {
      if (!none) {
        const clear = () => this.#choose({ text: "", states: new Set(), namespace: "" });
        return emptyText("No job matches", "None of the jobs passes the filters.", button("Show all jobs", clear));
      }
      if (trouble !== null) return emptyText(trouble, sentence(connection.message));
      const text = `There is no TrainJob ${where}. A new one appears here at once.`;
      return [...emptyText("No jobs yet", text), el("pre.mono", {}, "kubectl apply -f job.yaml")];
    });
    this.undecodable.hidden = undecodable.length === 0;
    const names = undecodable.map(keyOf).join(", ");
    say(this.undecodable, `Not shown, because they do not fit the API: ${names}`);
  }

  #show(made, item) {
    showRow(made, item.row, this.#names);
    // One stop of the Tab key for the whole list; arrow keys go from job to job.
    put(made.parts.link, "tabindex", item.key === this.#current ? "0" : "-1");
    put(made.parts.choice, "tabindex", item.key === this.#current ? "0" : "-1");
  }

  #chose() {
    this.choices.show();
    this.list.draw();
  }

  #toggle(state) {
    const states = new Set(this.#selection.states);
    if (!states.delete(state)) states.add(state);
    this.#choose({ states });
  }

  #sortBy(column, direction) {
    const same = this.#selection.column === column;
    this.#choose({ column, descending: direction ? direction === "down" : same && !this.#selection.descending });
  }

  #choose(part) {
    this.#selection = { ...this.#selection, ...part };
    if (this.text.value !== this.#selection.text) this.text.value = this.#selection.text;
    history.replaceState(null, "", this.#address());
    this.#keepAddress();
    if (this.#snapshot === null) return;
    this.#refresh();
    clearTimeout(this.#announceTimer);
    const words = `${counted(this.#items.length, "job")} of ${this.#rows.size} listed`;
    this.#announceTimer = setTimeout(() => announce(words), ANNOUNCE_MS);
  }

  #focus(index) {
    const row = this.list.reveal(index);
    row?.parts.link.focus({ preventScroll: true });
  }

  #key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      this.text.focus();
      this.text.select();
    } else if (event.key === "Escape" && typing === this.text && this.text.value) {
      event.preventDefault();
      this.#choose({ text: "" });
    } else if (event.key === "ArrowDown" && typing === this.text) {
      event.preventDefault();
      this.#focus(0);
    } else if (this.body.contains(event.target)) {
      this.#move(event);
    }
  };

  #move(event) {
    const here = this.#items.findIndex((item) => item.key === this.#current);
    const page = Math.max(1, Math.floor(innerHeight / 90));
    const to = {
      ArrowDown: here + 1,
      ArrowUp: here - 1,
      PageDown: here + page,
      PageUp: here - page,
      Home: 0,
      End: this.#items.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#focus(Math.min(this.#items.length - 1, Math.max(0, to)));
  }
}

const TROUBLE = {
  forbidden: "No right to list jobs",
  missing: "The cluster has no TrainJobs",
  unauthorized: "The credentials are not accepted",
  lost: "The API server does not answer",
};

/** Why nothing is known of the jobs; null if something is. */
function troubleOf({ state, lastContact }) {
  return state === "lost" && lastContact !== null ? null : (TROUBLE[state] ?? null);
}
