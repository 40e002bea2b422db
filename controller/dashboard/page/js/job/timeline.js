// SPDX-License-Identifier: Apache-2.0
// Conditions, and what happened, latest first.

import { now } from "../clock.js";
import { button, el, fill, panel } from "../dom.js";
import { age, clock, secondsOf, sentence } from "../format.js";
import { sign } from "../states.js";

const FIRST = 12;
const SOURCES = { condition: "Condition", event: "Event", job: "Job", attempt: "Attempt" };
const SIGNS = {
  True: ["Complete", "running"],
  False: ["Pending", "quiet"],
  Unknown: ["Stalled", "quiet"],
};

export class Timeline {
  #all = false;
  #job = null;

  constructor() {
    this.conditions = el("ul.conditions");
    this.list = el("ol.timeline", { "aria-label": "Latest first" });
    this.more = button("", () => this.#showAll(), { hidden: true });
    this.none = el("p.none.muted", { hidden: true }, "Nothing has happened yet.");
    this.node = panel("timeline", "Time line", [], this.conditions, this.list, this.none, this.more);
  }

  show(job) {
    this.#job = job;
    fill(this.conditions, JSON.stringify(job.conditions), () => job.conditions.map(condition));
    this.conditions.hidden = job.conditions.length === 0;
    const shown = this.#all ? job.timeline : job.timeline.slice(0, FIRST);
    fill(this.list, JSON.stringify(shown), () => shown.map(moment));
    this.none.hidden = shown.length > 0;
    this.more.hidden = shown.length === job.timeline.length;
    this.more.textContent = `Show all ${job.timeline.length} entries`;
  }

  #showAll() {
    this.#all = true;
    this.show(this.#job);
  }
}

function condition(one) {
  const bad = ["Failed", "Blocked", "Stalled"].includes(one.type) && one.status === "True";
  const [like, tone] = bad ? ["Failed", "failed"] : one.type === "Complete" && one.status === "True" ? ["Complete", "complete"] : (SIGNS[one.status] ?? SIGNS.Unknown);
  const since = secondsOf(one.since);
  return el(
    "li.condition",
    { dataset: { tone } },
    sign(like),
    el("div", {}, el("p", {}, el("strong", {}, one.type), ` ${one.status}`, el("span.muted", {}, ` · ${one.reason}`)), one.message ? el("p.muted.small", {}, sentence(one.message)) : null),
    since === null ? null : el("time.muted.small.number", { datetime: one.since }, clock(since)),
  );
}

function moment(one) {
  const at = secondsOf(one.at);
  const warning = one.severity === "warning";
  const many = one.count > 1 ? `${one.count} times since ${clock(secondsOf(one.first) ?? at)}` : "";
  const about = one.object.kind === "TrainJob" ? "" : `${one.object.kind} ${one.object.name}`;
  const kind = el("span.unseen", {}, `${warning ? "Warning, " : ""}${SOURCES[one.source] ?? one.source}: `);
  const time = at === null ? null : el("time.muted.small.number", { datetime: one.at, title: age(at, now()) }, clock(at));
  return el(
    "li.moment",
    { dataset: { tone: warning ? "warning" : "quiet", source: one.source } },
    el("span.moment-sign", {}, sign(warning ? "Stalled" : one.source === "condition" ? "Complete" : "Pending")),
    el(
      "div",
      {},
      el("p", {}, kind, el("strong", {}, one.reason), time),
      el("p.small", {}, sentence(one.message)),
      about || many ? el("p.muted.small", {}, [about, many].filter(Boolean).join(" · ")) : null,
    ),
  );
}
