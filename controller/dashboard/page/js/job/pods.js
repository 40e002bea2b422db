// SPDX-License-Identifier: Apache-2.0
// Pods and ranks. A grid shows many at a glance, a table says all about each.

import { el, fill, put, say } from "../dom.js";
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
    this.past = el("button.button", { type: "button", "aria-pressed": "false", hidden: true, onclick: () => this.#toggle() }, "Earlier attempts");
    this.more = el("button.button", { type: "button", hidden: true, onclick: () => this.#showAll() });
    this.none = el("p.none.muted");
    const heads = ["Pod", "State", "Node", "Restarts", ...USES.map(({ title }) => title), "Log"].map((text) => el("th", { scope: "col" }, text));
    this.table = el("table.plain.pods", {}, el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.scroll = el("div.table-scroll", { tabindex: "0", role: "group", "aria-labelledby": "pods-title" }, this.table);
    this.node = el(
      "section.panel",
      { "aria-labelledby": "pods-title" },
      el("div.panel-head", {}, el("h2", { id: "pods-title" }, "Pods"), this.summary, el("div.panel-tools", {}, this.past)),
      this.grid,
      this.scroll,
      this.none,
      this.more,
    );
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
      pods.map((pod) =>
        el(
          "li",
          {},
          el(
            "button.rank.number",
            {
              type: "button",
              dataset: { tone: TONES[pod.phase] ?? "quiet" },
              title: `${rankOf(pod)}: ${pod.phase}${pod.reason ? `, ${pod.reason}` : ""}`,
              "aria-label": `${rankOf(pod)}: ${pod.phase}${pod.reason ? `, ${pod.reason}` : ""}. Show its log`,
              onclick: () => this.#openLog(pod),
            },
            el("span", {}, SIGNS[pod.phase] ?? "?"),
            String(pod.rank),
          ),
        ),
      ),
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
    return el(
      "tr",
      { dataset: { pod: pod.name } },
      el("th", { scope: "row" }, rankOf(pod), el("span.muted.small.mono", {}, `${pod.name}${attempt}`)),
      el(
        "td",
        {},
        podState(pod.phase, pod.phase === "Pending" && pod.reason ? pod.reason : ""),
        ...ended.map((text) => el("span.small.pod-note", {}, text)),
        pod.message || (pod.reason && pod.phase !== "Pending" && pod.reason !== "Error") ? el("span.small.pod-note", {}, pod.message || pod.reason) : null,
        el("span.small.muted.number.pod-uses", { "aria-hidden": "true" }),
      ),
      el("td.mono", {}, pod.node || NONE),
      el("td.number", {}, pod.restarts),
      ...USES.map(() => el("td.number.pod-use")),
      el(
        "td",
        {},
        readable
          ? el("button.button.small-button", { type: "button", onclick: () => this.#openLog(pod) }, "Log", el("span.unseen", {}, ` of ${rankOf(pod)}`))
          : el("span.muted", {}, NONE),
      ),
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

/** As people call it: `rank 3` of the trainer, else the replicated job. */
export function rankOf(pod) {
  if (!pod.replicatedJob || pod.replicatedJob === "node") return `rank ${pod.rank}`;
  const replica = pod.jobIndex > 0 ? `-${pod.jobIndex}` : "";
  return `${pod.replicatedJob}${replica}-${pod.rank}`;
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
