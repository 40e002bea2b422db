// SPDX-License-Identifier: Apache-2.0
// Pods and ranks. A grid shows many at a glance, a table says all about each.

import { button, el, fill, panel, put, say, table } from "../dom.js";
import { NONE, counted } from "../format.js";
import { podState } from "../states.js";
import { USES, showUsage } from "./usage.js";

const GRID_FROM = 9;
const FIRST = 64;
const SIGNS = { Running: "▶", Succeeded: "✓", Failed: "✕", Pending: "…", Terminating: "–", Unknown: "?" };
const TONES = { Running: "running", Succeeded: "complete", Failed: "failed", Unknown: "warning" };

export class Pods {
  #open;
  #all = false;
  #earlier = false;
  #job = null;

  /** @param open called with a pod and a container whose log is to be shown */
  constructor(open) {
    this.#open = open;
    this.summary = el("p.muted.small");
    this.grid = el("ul.ranks", { "aria-label": "Ranks" });
    this.body = el("tbody");
    this.past = button("Earlier attempts", () => this.#toggle(), { "aria-pressed": "false", hidden: true });
    this.more = button("", () => this.#showAll(), { hidden: true });
    this.none = el("p.none.muted");
    this.table = table("table.plain.pods", ["Pod", "State", "Node", "Restarts", ...USES.map(({ title }) => title), "Log"], this.body);
    this.scroll = el("div.table-scroll", { tabindex: "0", role: "group", "aria-labelledby": "pods-title" }, this.table);
    this.node = panel("pods", "Pods", [this.summary, el("div.panel-tools", {}, this.past)], this.grid, this.scroll, this.none, this.more);
  }

  show(job) {
    this.#job = job;
    const current = job.pods.filter((pod) => pod.current);
    const old = job.pods.length - current.length;
    // If none belongs to the present attempt, the earlier ones are all that is known.
    const earlier = this.#earlier || current.length === 0;
    const listed = earlier ? job.pods : current;
    const unread = job.unread.find(({ part }) => part === "pods");
    const counts = new Map();
    for (const pod of current) counts.set(pod.phase, (counts.get(pod.phase) ?? 0) + 1);
    say(this.summary, [...counts].map(([phase, count]) => `${count} ${phase}`).join(", "));
    this.past.hidden = old === 0 || current.length === 0;
    put(this.past, "aria-pressed", String(this.#earlier));
    this.grid.hidden = current.length < GRID_FROM;
    if (!this.grid.hidden) this.#showGrid(current);
    const shown = this.#all ? listed : [...listed].sort(troubleFirst(listed.length > FIRST)).slice(0, FIRST);
    const made = shown.map((pod) => ({ ...pod, usage: null }));
    fill(this.body, JSON.stringify(made), () => shown.map((pod) => this.#row(pod)));
    showUsage(this.table, shown);
    this.scroll.hidden = shown.length === 0;
    this.more.hidden = shown.length === listed.length;
    say(this.more, `Show all ${counted(listed.length, "pod")}`);
    this.none.hidden = shown.length > 0;
    say(this.none, unread ? `Pods are not shown: ${unread.message}.` : "There are no pods.");
  }

  #showGrid(pods) {
    const key = pods.map((pod) => `${pod.uid}${pod.phase}`).join();
    fill(this.grid, key, () =>
      pods.map((pod) => {
        const title = `${pod.who}: ${pod.phase}${pod.reason ? `, ${pod.reason}` : ""}`;
        const attributes = { type: "button", dataset: { tone: TONES[pod.phase] ?? "quiet" }, title, "aria-label": `${title}. Show its log` };
        const made = el("button.rank.number", { ...attributes, onclick: () => this.#openLog(pod) }, el("span", {}, SIGNS[pod.phase] ?? "?"), String(pod.rank));
        return el("li", {}, made);
      }),
    );
  }

  #openLog(pod) {
    const found = pod.containers.filter(({ log }) => log);
    const chosen = found.find(({ exitCode }) => exitCode) ?? found.find(({ init }) => !init) ?? found[0];
    this.#open(pod.name, chosen?.name ?? "");
  }

  #row(pod) {
    const shown = pod.containers.filter((one) => one.exitCode !== null || one.reason || !one.init);
    const ended = shown.flatMap((one) => containerNotes(one, pod.containers.length > 1));
    const attempt = pod.current || pod.attempt === null ? "" : ` · attempt ${pod.attempt}`;
    const readable = pod.containers.some(({ log, previousLog }) => log || previousLog);
    // The rest of a traceback is in the log; its last line says what was raised.
    const last = pod.message.trim().split("\n").at(-1);
    const note = last || (pod.phase !== "Pending" && pod.reason !== "Error" ? pod.reason : "");
    const open = () => el("button.button.small-button", { type: "button", onclick: () => this.#openLog(pod) }, "Log", el("span.unseen", {}, ` of ${pod.who}`));
    return el(
      "tr",
      { dataset: { pod: pod.name } },
      el("th", { scope: "row" }, pod.who, el("span.muted.small.mono", {}, `${pod.name}${attempt}`)),
      el(
        "td",
        {},
        podState(pod.phase, pod.phase === "Pending" && pod.reason ? pod.reason : ""),
        ...ended.map((text) => el("span.small.pod-note", {}, text)),
        note ? el("span.small.pod-note.pod-message", { title: pod.message || null }, note) : null,
        el("span.small.muted.number.pod-uses", { "aria-hidden": "true" }),
      ),
      el("td.mono", {}, pod.node || NONE),
      el("td.number", {}, pod.restarts),
      ...USES.map(() => el("td.number.pod-use")),
      el("td", {}, readable ? open() : el("span.muted", {}, NONE)),
    );
  }

  #toggle() {
    this.#earlier = !this.#earlier;
    this.show(this.#job);
  }

  #showAll() {
    this.#all = true;
    this.show(this.#job);
  }
}

function containerNotes(one, named) {
  const name = named ? `${one.name}: ` : "";
  if (one.state === "waiting" && one.reason) return [`${name}${one.reason}`];
  if (one.exitCode !== null && (one.exitCode !== 0 || one.signal)) {
    const signal = one.signal ? `, signal ${one.signal}` : "";
    return [`${name}${one.reason && one.reason !== "Error" ? `${one.reason}, ` : ""}exit code ${one.exitCode}${signal}`];
  }
  return [];
}

/** Of many, those in trouble first. */
function troubleFirst(many) {
  const rank = { Failed: 0, Unknown: 1, Pending: 2, Terminating: 3 };
  return (a, b) => (many ? (rank[a.phase] ?? 4) - (rank[b.phase] ?? 4) : 0);
}
