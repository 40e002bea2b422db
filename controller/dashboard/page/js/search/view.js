// SPDX-License-Identifier: Apache-2.0
// The page of a search: its best value, its parameters, and its trials.

import { paths, problemIn, read } from "../api.js";
import { announce, el, emptyText, fill, panel, put, say, scrolling, table } from "../dom.js";
import { NONE, counted, number, sentence } from "../format.js";
import { hrefOf } from "../jobs/row.js";
import { compare } from "../jobs/selection.js";
import { listAddress } from "../jobs/view.js";
import { showState, stateElement } from "../states.js";
import { Drawing, Scale, paintHistory, paintParallel, paintScatter } from "./drawings.js";

/** A search that goes on is read again so often, while its page is seen. */
const AGAIN_MS = 2000;

export class SearchView {
  #key;
  #shell;
  #search = null;
  #shown = "";
  #order = { column: "trial", descending: false };
  #drawings = new Map();
  #timer = 0;
  #abort = new AbortController();

  /** @param shell what `main.js` offers: `connection(connection)`, `link(state, detail)`, `where(cluster)` */
  constructor(root, key, _, shell) {
    this.#key = key;
    this.#shell = shell;
    this.#build(root);
    document.addEventListener("visibilitychange", this.#seen);
    this.#read();
  }

  ask() {
    // The address has no query.
  }

  close() {
    this.#abort.abort();
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
    for (const drawing of this.#drawings.values()) drawing.close();
  }

  #build(root) {
    this.title = el("h1", { tabindex: "-1" }, this.#key.name);
    this.state = stateElement();
    this.state.hidden = true;
    this.about = el("p.muted.job-about");
    this.message = el("p.note.search-message", { hidden: true });
    this.problem = el("div.empty.card", { role: "alert", hidden: true });
    this.loading = el("div.empty.card", {}, "Reading the search …");
    this.facts = el("dl.facts");
    this.best = el("div.card.summary.search-best", {}, this.facts);
    this.charts = el("div.charts.search-charts");
    this.scatters = el("div.charts");
    this.importance = el("div.importance");
    this.trials = el("div");
    this.content = el(
      "div.job",
      { hidden: true },
      this.best,
      panel("values", "Values", [], this.charts),
      panel("importance", "Importance of parameters", [], this.importance),
      panel("parameters", "Parameters", [], this.scatters),
      panel("trials", "Trials", [], this.trials),
    );
    root.replaceChildren(
      el("nav.crumbs", { "aria-label": "Way back" }, el("a", { href: listAddress() }, "← All jobs")),
      el("div.job-head", {}, this.title, this.state),
      this.about,
      this.message,
      this.loading,
      this.problem,
      this.content,
    );
    document.title = `${this.#key.name} · Trainwright`;
  }

  // ------------------------------------------------------------------ reading

  #seen = () => {
    if (!document.hidden) this.#read();
  };

  async #read() {
    clearTimeout(this.#timer);
    try {
      this.#take(await read(paths.search(this.#key), this.#abort.signal));
    } catch (error) {
      const problem = problemIn(error);
      if (problem === null) return;
      this.#trouble(problem);
    }
    if (!document.hidden && !["Complete", "Failed"].includes(this.#search?.state)) this.#timer = setTimeout(() => this.#read(), AGAIN_MS);
  }

  #trouble(problem) {
    this.loading.hidden = true;
    if (this.#search !== null && problem.reason !== "NotFound") {
      this.#shell.link("lost", problem.message);
      return;
    }
    this.#shell.link("open", null);
    this.content.hidden = true;
    this.problem.hidden = false;
    const text = sentence(problem.message);
    fill(this.problem, text, () => emptyText("The search is not there", text, el("a.button", { href: listAddress() }, "All jobs")));
  }

  #take(search) {
    this.#search = search;
    this.loading.hidden = true;
    this.problem.hidden = true;
    this.content.hidden = false;
    this.#shell.link("open", null);
    this.#shell.where(search.cluster);
    this.#shell.connection(search.connection);
    const shown = JSON.stringify({ ...search, now: "", connection: "" });
    if (shown !== this.#shown) this.#show(search);
    this.#shown = shown;
  }

  // ------------------------------------------------------------------ showing

  #show(search) {
    const { trials } = search;
    const ended = (state) => trials.filter((one) => one.state === state).length;
    const over = ended("Complete") + ended("Failed") + ended("Pruned");
    this.state.hidden = false;
    showState(this.state, search.state);
    const way = search.maximize ? "the highest" : "the lowest";
    const more = [search.pruner ? `pruner ${search.pruner}` : "", `${search.parallel} at once`];
    say(this.about, [search.namespace, `${way} ${search.metric}`, `sampler ${search.sampler}`, ...more].filter(Boolean).join(" · "));
    this.message.hidden = !search.message;
    say(this.message, sentence(search.message));
    const best = trials.find((one) => one.best) ?? null;
    if (this.best.dataset.trial !== String(best?.number ?? "")) {
      if (this.best.dataset.trial !== undefined && best) announce(`Trial ${best.number} is the best one now: ${search.metric} ${number(best.value)}`);
      this.best.dataset.trial = String(best?.number ?? "");
    }
    const facts = [
      [`Best ${search.metric}`, best ? number(best.value) : NONE],
      ["Best trial", best ? this.#link(best) : NONE],
      ["Trials", `${over} of ${search.limit}`],
      ["Not over", String(trials.length - over)],
      ["Failed", String(ended("Failed"))],
      ...(search.pruner ? [["Stopped early", String(ended("Pruned"))]] : []),
      ...(best ? Object.entries(best.parameters).map(([name, value]) => [name, number(value)]) : []),
    ];
    fill(this.facts, this.#shown + over, () => facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd.number", {}, value))));
    this.#draw(search);
    this.#showImportance(search);
    this.#showTrials(search);
  }

  #draw(search) {
    const valued = search.trials.filter(({ state, value }) => state === "Complete" && value !== null);
    const values = valued.map(({ value }) => value);
    const objective = new Scale({ title: search.metric }, values);
    const scales = search.parameters.map(({ name, choices, logarithmic }) => new Scale({ title: name, choices, logarithmic }, choices.length ? [] : valued.map(({ parameters }) => Number(parameters[name] ?? Number.NaN))));
    const what = counted(valued.length, "trial");
    this.#drawing("history", "Best value over trials", 260, this.charts).show(
      `${search.metric} of ${what} by their number, with the best value so far as a line. The table of trials has the numbers.`,
      paintHistory(search, objective),
    );
    this.#drawing("parallel", "Parameters and value", 260, this.charts).show(
      `${what} as lines across the parameters ${search.parameters.map(({ name }) => name).join(", ")} to ${search.metric}; the best one is the strongest.`,
      paintParallel(search, scales, objective),
    );
    for (const scale of scales) {
      this.#drawing(`scatter ${scale.title}`, scale.logarithmic ? `${scale.title} (log scale)` : scale.title, 220, this.scatters).show(
        `${search.metric} against ${scale.title} of ${what}; the best one is a star.`,
        paintScatter(search, scale, objective),
      );
    }
  }

  #drawing(id, title, height, place) {
    if (!this.#drawings.has(id)) {
      const made = new Drawing(title, height);
      this.#drawings.set(id, made);
      place.append(made.node);
    }
    return this.#drawings.get(id);
  }

  #showImportance({ importance, importanceNote }) {
    fill(this.importance, JSON.stringify([importance, importanceNote]), () => {
      if (importance === null || !Object.keys(importance).length) return el("p.muted", {}, sentence(importanceNote));
      const shares = Object.entries(importance).sort(([, one], [, other]) => other - one);
      return el("dl.shares", {}, ...shares.map(([name, share]) => {
        const bar = el("span");
        bar.style.width = `${(share * 100).toFixed(1)}%`;
        return el("div", {}, el("dt", {}, name), el("dd", {}, el("span.bar", { "aria-hidden": "true" }, bar), el("span.number", {}, `${Math.round(share * 100)}%`)));
      }));
    });
  }

  #showTrials(search) {
    const columns = [
      { id: "trial", title: "Trial", value: (one) => one.number },
      { id: "state", title: "State", value: (one) => one.state },
      { id: "value", title: search.metric, value: (one) => one.value },
      ...search.parameters.map(({ name, choices }) => ({
        id: `parameter ${name}`,
        title: name,
        value: ({ parameters }) => (name in parameters ? (choices.length ? parameters[name] : Number(parameters[name])) : null),
      })),
    ];
    const { column, descending } = this.#order;
    const by = columns.find(({ id }) => id === column) ?? columns[0];
    const sorted = [...search.trials].sort((one, other) => compare(by.value(one), by.value(other), descending ? -1 : 1) || one.number - other.number);
    const rows = sorted.map((one) =>
      el(
        "tr",
        { dataset: one.best ? { best: "yes" } : {} },
        el("th.number", { scope: "row" }, this.#link(one), one.best ? el("span.leads", { title: "The best trial" }, " ★", el("span.unseen", {}, " best")) : null),
        el("td", {}, trialState(one), one.message ? el("span.trial-note.muted", {}, sentence(one.message)) : null),
        el("td.number", {}, one.value === null ? NONE : number(one.value)),
        ...search.parameters.map(({ name }) => el("td.number", {}, name in one.parameters ? number(one.parameters[name]) : NONE)),
      ),
    );
    const made = table("table.plain.search-table", [], el("tbody", {}, ...rows));
    const head = columns.map(({ id, title }) => {
      const sort = el("button.head-button", { type: "button", onclick: () => this.#sort(id), dataset: { column: id } }, title);
      return el("th", { scope: "col", "aria-sort": id === column ? (descending ? "descending" : "ascending") : null }, sort);
    });
    made.tHead.rows[0].replaceChildren(...head);
    const focused = this.trials.contains(document.activeElement) ? document.activeElement.dataset.column : null;
    this.trials.replaceChildren(search.trials.length ? scrolling("div.table-scroll.search-scroll", "Trials", made) : el("p.muted", {}, "No trial has begun."));
    if (focused) this.trials.querySelector(`[data-column="${CSS.escape(focused)}"]`)?.focus();
  }

  #sort(column) {
    this.#order = { column, descending: this.#order.column === column && !this.#order.descending };
    this.#showTrials(this.#search);
    announce(`Sorted by ${column.replace("parameter ", "")}`);
  }

  #link(trial) {
    const text = String(trial.number);
    return trial.exists ? el("a", { href: hrefOf({ namespace: this.#key.namespace, name: trial.name }), title: trial.name }, text) : el("span", { title: `TrainJob ${trial.name} was deleted` }, text);
  }
}

function trialState(trial) {
  const shown = stateElement();
  const early = trial.state === "Pruned";
  showState(shown, early ? "Suspended" : trial.state);
  if (early) say(shown.word, "Stopped early");
  if (trial.percentage !== null && trial.percentage !== undefined && trial.state === "Running") put(shown, "title", `${trial.percentage}%`);
  return shown;
}
