// SPDX-License-Identifier: Apache-2.0
// Why the job does not train: the cause, its evidence, and what is known beside it.

import { now } from "../clock.js";
import { el, fill, put } from "../dom.js";
import { age, clock, plain, secondsOf, sentence } from "../format.js";
import { sign } from "../states.js";

const TITLES = {
  Failed: ["failed", "Failed", "Why it failed"],
  Blocked: ["failed", "Blocked", "Why it does not train"],
  Stuck: ["failed", "Stuck", "Why it does not train"],
  Restarting: ["warning", "Restarting", "Why it restarts"],
  Stalled: ["warning", "Stalled", "Why it stands still"],
  Suspended: ["quiet", "Suspended", "Why it is suspended"],
  Deleting: ["quiet", "Deleting", "What its deletion waits for"],
  Waiting: ["warning", "Waiting", "What it waits for"],
  Pending: ["quiet", "Pending", "What it waits for"],
};

export class Why {
  constructor() {
    this.node = el("section.panel.why", { "aria-labelledby": "why-title", hidden: true });
  }

  show(job) {
    const { explanation, row } = job;
    const known = TITLES[explanation?.outcome];
    // A training that runs, and yet makes no progress.
    const shown = known ?? (explanation && row.stalled ? ["warning", "Stalled", "Why it stands still"] : null);
    const others = explanation?.outcome === "Running" && explanation.others.length > 0;
    this.node.hidden = !shown && !others;
    if (this.node.hidden) return;
    // Without rights there is nothing to be said for sure.
    const unknown = explanation.cause.reason === "Unknown" ? ["quiet", "Pending", "Why it does not train is not known"] : null;
    const [tone, like, title] = unknown ?? shown ?? ["quiet", "Pending", "Good to know"];
    put(this.node, "data-tone", tone);
    const failure = explanation.outcome === "Failed" ? job.attempts.findLast((attempt) => attempt.failure)?.failure : null;
    const isNew = fill(this.node, JSON.stringify([title, explanation, failure, row.stalledMessage]), () => [
      el("h2", { id: "why-title" }, sign(like), title),
      row.stalled && !known ? el("p.why-message", {}, row.stalledMessage || row.stalled) : cause(explanation.cause, "p.why-message"),
      facts(explanation.cause),
      failure?.pod ? evidence(failure) : null, // an attempt that stood still has no rank that failed first
      explanation.others.length
        ? el("ul.why-others", { "aria-label": "Further causes" }, ...explanation.others.map((other) => el("li", {}, cause(other, "p"), facts(other))))
        : null,
      explanation.notRead.length ? el("p.muted.note", {}, `This may be incomplete: ${explanation.notRead.join("; ")}.`) : null,
    ]);
    // The error is at the end of what was written.
    const lines = isNew ? this.node.querySelector(".evidence pre") : null;
    if (lines) lines.scrollTop = lines.scrollHeight;
  }
}

function cause(one, tag) {
  return el(tag, {}, sentence(one.message));
}

function facts(one) {
  const shown = [el("span.tag.mono", {}, one.reason)];
  if (one.object) shown.push(el("span", {}, `${one.object.kind} ${one.object.name}`));
  const since = secondsOf(one.since);
  if (since !== null) shown.push(el("span", {}, `since ${clock(since)} (${age(since, now())})`));
  return el("p.why-facts.muted", {}, ...shown);
}

function evidence(failure) {
  const code = failure.exitCode === null ? failure.reason : `exit code ${failure.exitCode}${failure.reason && failure.reason !== "Error" ? ` (${failure.reason})` : ""}`;
  const where = failure.container ? `container ${failure.container} of pod ${failure.pod}` : `pod ${failure.pod}`;
  const head = `Failed first: ${[...new Set([failure.who, where, code])].filter(Boolean).join(", ")}`;
  return el(
    "div.evidence",
    {},
    el("p", {}, head),
    failure.log.length
      ? el("pre.mono", { tabindex: "0", role: "group", "aria-label": "Last lines of its log" }, failure.log.map(plain).join("\n"))
      : null,
  );
}
