// SPDX-License-Identifier: Apache-2.0
// The page of one job.

import { Stream, paths } from "../api.js";
import { now } from "../clock.js";
import { announce, el, emptyText, fill, panel, put, say } from "../dom.js";
import { age, clock, counted, duration, number, secondsOf, sentence } from "../format.js";
import { eta, etaTitle, hrefOf, searchHref, steps } from "../jobs/row.js";
import { listAddress } from "../jobs/view.js";
import { ON_ITS_WAY, showState, stateElement, toneOf } from "../states.js";
import { Actions } from "./actions.js";
import { format, parse } from "./address.js";
import { Curves } from "./curves.js";
import { Logs } from "./logs.js";
import { Objects } from "./objects.js";
import { Pods } from "./pods.js";
import { Timeline } from "./timeline.js";
import { Why } from "./why.js";

export class JobView {
  #key;
  #shell;
  #job = null;
  #state = "";
  #ticker;

  #asked;

  constructor(root, key, query, shell) {
    this.#key = key;
    this.#shell = shell;
    this.#asked = parse(query);
    this.#build(root);
    this.stream = new Stream(
      `${paths.job(key)}/stream`,
      paths.job(key),
      {
        job: (job) => this.#take(job),
        points: (points) => this.curves.append(points),
        gone: () => this.#gone(this.#job ? "The job was deleted." : `There is no TrainJob ${key.name} in namespace ${key.namespace}.`),
        connection: shell.connection,
      },
      (state, detail) => this.#link(state, detail),
    );
    this.#ticker = setInterval(() => this.#tick(), 1000);
  }

  /** The address has changed, as by the way back. */
  ask(query) {
    const asked = parse(query);
    if (format(asked) === format(this.#asked)) return;
    this.#asked = asked;
    this.curves.ask(asked);
    this.logs.ask(asked);
    if (this.#job) this.#show(this.#job);
  }

  /** Show something else of the job, and keep it in the address. */
  #choose(part) {
    this.#asked = { ...this.#asked, ...part };
    const asked = format(this.#asked);
    // On the way back, the address is that of the list a moment before the view is: what a job shows by itself meanwhile
    // would take its place.
    if (location.hash.split("?")[0] !== hrefOf(this.#key)) return;
    history.replaceState(null, "", `${hrefOf(this.#key)}${asked ? `?${asked}` : ""}`);
  }

  #chooseAttempt(attempt) {
    this.#choose({ attempt, log: null, range: null });
    this.curves.ask(this.#asked);
    this.logs.ask(this.#asked);
    this.#show(this.#job);
  }

  close() {
    this.stream.close();
    this.actions.close();
    this.curves.close();
    this.logs.close();
    this.objects.close();
    clearInterval(this.#ticker);
  }

  #build(root) {
    this.title = el("h1", { tabindex: "-1" }, this.#key.name);
    this.state = stateElement();
    this.about = el("p.muted.job-about");
    this.percent = el("span.big.number");
    this.fill = el("span");
    this.bar = el("div.bar.big-bar", { "aria-hidden": "true" }, this.fill);
    this.facts = new Map(["ETA", "Last report", "Step", "Epoch", "Attempt", "Duration"].map((name) => [name, el("dd.number")]));
    this.why = new Why();
    this.actions = new Actions(this.#key);
    const choose = (part) => this.#choose(part);
    this.attempts = el("select.choice", { "aria-label": "Attempt", hidden: true, onchange: () => this.#chooseAttempt(Number(this.attempts.value) || null) });
    this.curves = new Curves(this.#key, this.#asked, choose);
    this.timeline = new Timeline();
    this.logs = new Logs(this.#key, this.#asked, choose);
    this.objects = new Objects(this.#key);
    this.pods = new Pods((pod, container) => {
      this.logs.open(pod, container);
      this.logs.node.scrollIntoView({ block: "start" });
      document.getElementById("log-title").focus({ preventScroll: true });
    });
    this.metrics = el("dl.metrics.number");
    this.values = panel("metrics", "Last values", [], this.metrics);
    this.unread = el("p.note.muted", { hidden: true });
    this.missing = el("div.empty.card", { hidden: true });
    this.content = el(
      "div.job",
      { hidden: true },
      el(
        "div.card.summary",
        {},
        el("div.summary-progress", {}, this.percent, this.bar),
        el("dl.facts", {}, ...[...this.facts].map(([name, value]) => el("div", {}, el("dt", {}, name), value))),
      ),
      this.why.node,
      el(
        "div.columns",
        {},
        el("div.column", {}, this.curves.node, this.pods.node, this.logs.node, this.objects.node),
        el("div.column.side", {}, this.values, this.timeline.node),
      ),
      this.unread,
    );
    this.loading = el("div.empty.card", {}, "Reading the job …");
    root.replaceChildren(
      el("nav.crumbs", { "aria-label": "Way back" }, el("a", { href: listAddress() }, "← All jobs")),
      el("div.job-head", {}, this.title, this.state, this.attempts, this.actions.node),
      this.about,
      this.actions.done,
      this.loading,
      this.missing,
      this.content,
    );
    this.state.hidden = true;
    document.title = `${this.#key.name} · Trainwright`;
  }

  #link(state, detail) {
    if (state === "lost") this.curves.forget();
    if (state === "ended" && detail.reason === "NotFound") {
      this.#gone(detail.message);
      this.#shell.link("open", null);
      return;
    }
    this.#shell.link(state, detail);
  }

  #gone(message) {
    this.loading.hidden = true;
    this.content.hidden = true;
    this.state.hidden = true;
    this.attempts.hidden = true;
    this.actions.node.hidden = true;
    this.missing.hidden = false;
    // The API server has answered.
    this.#shell.connection({ state: "live", message: "", lastContact: null });
    const text = sentence(message);
    this.missing.replaceChildren(...emptyText("The job is not there", text, el("a.button", { href: listAddress() }, "All jobs")));
    announce(text);
  }

  #take(job) {
    this.#job = job;
    this.loading.hidden = true;
    this.missing.hidden = true;
    this.content.hidden = false;
    this.state.hidden = false;
    this.#shell.where(job.cluster);
    this.#shell.connection(job.connection);
    const { row } = job;
    const state = standing(job);
    showState(this.state, state);
    // A screen reader is told of a new state only.
    if (this.#state && this.#state !== state) announce(`${row.name} is ${state} now`);
    this.#state = state;
    put(this.bar, "data-tone", toneOf(state));
    this.fill.style.width = `${row.percentage ?? 0}%`;
    const over = state === "Complete" || state === "Failed";
    say(this.percent, row.percentage !== null ? `${row.percentage}%` : over ? "No progress was reported" : "No progress reported yet");
    this.percent.classList.toggle("without", row.percentage === null);
    this.bar.hidden = row.percentage === null;
    document.title = `${row.percentage === null ? "" : `${row.percentage}% `}${row.name} · Trainwright`;
    const created = secondsOf(row.created);
    const about = [
      `Namespace ${row.namespace}`,
      `${row.runtime.kind === "ClusterTrainingRuntime" ? "cluster runtime" : "runtime"} ${row.runtime.name}`,
      row.nodes === null ? "" : counted(row.nodes, "node"),
      created === null ? "" : `created ${clock(created)}`,
      row.managedBy ? `managed by ${row.managedBy}` : "",
    ];
    const text = about.filter(Boolean).join(" · ");
    const search = () => [" · trial of ", el("a", { href: searchHref(row) }, row.search)];
    fill(this.about, text + row.search, () => [text, ...(row.search ? search() : [])]);
    this.#tick();
    this.#show(job);
    this.actions.show(job);
    this.why.show(job);
    this.curves.refresh(row);
    this.#showMetrics(job.metrics);
    this.timeline.show(job);
    this.objects.show(job);
    const missing = job.unread.filter(({ part }) => part !== "pods").map(({ part, message }) => `${part}: ${message}`);
    this.unread.hidden = missing.length === 0;
    say(this.unread, `Not everything could be read. ${missing.map(sentence).join(" ")}`);
  }

  /** What depends on the attempt that was chosen. */
  #show(job) {
    const last = job.attempt ?? 1;
    const numbers = Array.from({ length: last }, (_, place) => place + 1);
    const { attempt } = this.#asked;
    if (attempt !== null && attempt > last) numbers.push(attempt);
    this.attempts.hidden = numbers.length < 2;
    fill(this.attempts, numbers.join(), () => [
      el("option", { value: "" }, "All attempts"),
      ...numbers.map((number) => el("option", { value: number }, `Attempt ${number}`)),
    ]);
    this.attempts.value = attempt ?? "";
    const pods = attempt === null ? job.pods : job.pods.filter((pod) => pod.attempt === attempt || pod.attempt === null);
    // Of an earlier attempt, its own pods are the ones to look at.
    const shown = attempt === null ? job : { ...job, pods: pods.map((pod) => ({ ...pod, current: true })) };
    this.pods.show(shown);
    this.logs.show(shown);
  }

  #showMetrics(metrics) {
    const shown = metrics.filter(({ name }) => !["current_step", "total_steps", "current_epoch", "total_epochs"].includes(name));
    this.values.hidden = shown.length === 0;
    // Values change often, names seldom: only the text of what differs is touched.
    const names = shown.map(({ name }) => name).join("\n");
    if (this.metrics.filledWith !== names) {
      this.metrics.filledWith = names;
      this.metrics.replaceChildren(...shown.map(({ name }) => el("div", {}, el("dt", {}, name), el("dd"))));
    }
    shown.forEach(({ value }, place) => say(this.metrics.children[place].lastChild, number(value)));
  }

  #tick() {
    if (!this.#job) return;
    const { row, attempt, mostAttempts } = this.#job;
    const moment = now();
    const report = secondsOf(row.lastReport);
    const created = secondsOf(row.created);
    const finished = secondsOf(row.finished);
    const of = (here, total) => (here === null ? "" : total === null ? number(here) : `${number(here)} of ${number(total)}`);
    const texts = {
      ETA: row.remaining ? eta(row, moment) : "",
      "Last report": report === null ? "never" : age(report, moment),
      Step: of(row.step, row.totalSteps),
      Epoch: of(row.epoch, row.totalEpochs),
      Attempt: of(attempt, mostAttempts),
      Duration: created === null ? "" : duration((finished ?? moment) - created),
    };
    for (const [name, value] of this.facts) {
      say(value, texts[name]);
      value.parentElement.hidden = texts[name] === "";
    }
    put(this.facts.get("ETA"), "title", etaTitle(row, moment));
    put(this.bar, "title", steps(row) || null);
  }
}

/** The state of the row, unless it is known already why the job does not train: the row says so only after some time. */
function standing({ row, explanation }) {
  const isKnown = explanation && !["Unknown", "Starting"].includes(explanation.cause.reason) && !["Complete", "Failed"].includes(explanation.outcome);
  return isKnown && ON_ITS_WAY.includes(row.state) ? explanation.outcome : row.state;
}
