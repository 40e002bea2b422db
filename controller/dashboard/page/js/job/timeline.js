// SPDX-License-Identifier: Apache-2.0
// What the training did, latest first, and on demand what Kubernetes says of it.

import { now } from "../clock.js";
import { button, el, fill, panel, put, say } from "../dom.js";
import { age, clock, counted, secondsOf, sentence } from "../format.js";
import { sign } from "../states.js";

const FIRST = 12;
const SIGNS = { Complete: "Complete", Failed: "Failed", Suspended: "Suspended", Checkpoint: "Complete" };

export class Timeline {
  #all = false;
  #kubernetes = false;
  #job = null;

  constructor() {
    this.list = el("ol.timeline", { "aria-label": "Latest first" });
    this.events = button("", () => this.#toggle(), { "aria-pressed": "false" });
    this.more = button("", () => this.#showAll(), { hidden: true });
    this.none = el("p.none.muted", { hidden: true }, "Nothing has happened yet.");
    this.node = panel("timeline", "Time line", [el("div.panel-tools", {}, this.events)], this.list, this.none, this.more);
  }

  show(job) {
    this.#job = job;
    const training = job.timeline.filter(({ source }) => source === "training");
    const listed = this.#kubernetes ? job.timeline : training;
    const shown = this.#all ? listed : listed.slice(0, FIRST);
    fill(this.list, JSON.stringify(shown), () => shown.map(moment));
    say(this.events, counted(job.timeline.length - training.length, "Kubernetes event"));
    put(this.events, "aria-pressed", String(this.#kubernetes));
    this.events.hidden = job.timeline.length === training.length;
    this.none.hidden = shown.length > 0;
    this.more.hidden = shown.length === listed.length;
    say(this.more, `Show all ${listed.length} entries`);
  }

  #toggle() {
    this.#kubernetes = !this.#kubernetes;
    this.show(this.#job);
  }

  #showAll() {
    this.#all = true;
    this.show(this.#job);
  }
}

function moment(one) {
  const at = secondsOf(one.at);
  const warning = one.severity === "warning";
  const many = one.count > 1 ? `${one.count} times since ${clock(secondsOf(one.first) ?? at)}` : "";
  const about = one.object.kind === "TrainJob" ? "" : `${one.object.kind} ${one.object.name}`;
  const kind = el("span.unseen", {}, warning ? "Warning: " : "");
  const time = at === null ? null : el("time.muted.small.number", { datetime: one.at, title: age(at, now()) }, clock(at));
  return el(
    "li.moment",
    { dataset: { tone: warning ? "warning" : one.source === "training" ? "running" : "quiet", source: one.source } },
    el("span.moment-sign", {}, sign(SIGNS[one.reason] ?? (warning ? "Stalled" : one.source === "training" ? "Running" : "Pending"))),
    el(
      "div",
      {},
      el("p", {}, kind, el("strong", {}, one.reason), time),
      el("p.small", {}, sentence(one.message)),
      about || many ? el("p.muted.small", {}, [about, many].filter(Boolean).join(" · ")) : null,
    ),
  );
}
