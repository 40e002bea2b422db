// SPDX-License-Identifier: Apache-2.0
// The log of a container, or of all ranks: which one, and what can be done with it.

import { paths, problemIn, read, request } from "../api.js";
import { button, el, fill, panel, put, say } from "../dom.js";
import { number, sentence } from "../format.js";
import { LogLines } from "./lines.js";

const RETRY_MS = 3000;
const SEARCH_MS = 250;
/** In place of a pod. */
const ALL = "*";

export class Logs {
  #key;
  #keep;
  #pods = [];
  #pod = "";
  #container = "";
  #previous = false;
  #attempt = null;
  #chosen = false;
  #opened = "";
  #query = "";
  #abort = null;
  #retry = 0;
  #job = null;
  #words = "";
  /** The runs of all ranks that the page knows of. */
  #runs = "";
  /** Whether the log has ended and is not asked for any more. */
  #over = false;
  #found = { lines: [], more: false, place: -1 };
  #searching = 0;

  /**
   * @param asked what the address asks for
   * @param keep called with what is chosen, for the address
   */
  constructor(key, asked, keep) {
    this.#key = key;
    this.#keep = keep;
    this.pods = el("select.choice", { "aria-label": "Pod", onchange: () => this.open(this.pods.value, "") });
    this.containers = el("select.choice", { "aria-label": "Container", onchange: () => this.open(this.#pod, this.containers.value) });
    this.before = button("Run before", () => this.#toggleBefore(), { "aria-pressed": "false" });
    this.follow = button("Follow", () => this.lines.setFollow(!this.lines.follow), { "aria-pressed": "true" });
    this.wrap = button("Wrap", () => this.#toggleWrap(), { "aria-pressed": "false" });
    this.save = el("a.button", { download: "" }, "Download");
    this.views = el("div.views", {}, this.wrap, this.follow, this.save);
    /** A name may be longer than a list can show. */
    this.name = el("p.log-name.mono.muted");
    this.find = el("input.field.log-find", {
      type: "search",
      placeholder: "Find in all lines",
      "aria-label": "Find in the log",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.#searchSoon(),
      onkeydown: (event) => this.#searchKey(event),
    });
    this.count = el("span.muted.small.number", { role: "status" });
    this.earlier = button("↑", () => this.#step(-1), { "aria-label": "Previous match" });
    this.later = button("↓", () => this.#step(1), { "aria-label": "Next match" });
    this.search = el("div.log-search", { role: "search" }, this.find, this.earlier, this.later, this.count);
    this.lines = new LogLines(
      (from, count) => this.#range(from, count),
      (on) => put(this.follow, "aria-pressed", String(on)),
    );
    this.state = el("p.log-state.muted.small", { role: "status" });
    const tools = el("div.panel-tools", {}, this.pods, this.containers, this.before, this.views);
    this.node = panel("log", "Log", [tools], this.name, this.search, this.lines.node, this.state);
    this.node.id = "log";
    this.node.querySelector("h2").tabIndex = -1;
    this.#ask(asked);
  }

  close() {
    this.#abort?.abort();
    clearTimeout(this.#retry);
    clearTimeout(this.#searching);
    this.lines.close();
  }

  /** The address asks for something else. */
  ask(asked) {
    this.#ask(asked);
    this.#opened = "";
  }

  #ask({ log, attempt, find }) {
    this.#chosen = log !== null;
    this.#pod = log?.pod ?? "";
    this.#container = log?.container ?? "";
    this.#previous = log?.previous ?? false;
    this.#attempt = attempt;
    this.find.value = find;
  }

  show(job) {
    this.#job = job;
    this.#pods = job.pods;
    const unread = job.unread.find(({ part }) => part === "pods");
    const isThere = this.#pod === ALL ? this.#pods.length > 0 : this.#pods.some(({ name }) => name === this.#pod);
    if (!isThere || (!this.#chosen && !this.#opened)) this.#pickPod();
    const pod = this.#pods.find(({ name }) => name === this.#pod);
    fill(this.pods, JSON.stringify(this.#pods.map(({ name, current, attempt }) => [name, current, attempt])), () => this.#podOptions());
    this.pods.value = this.#pod;
    this.pods.hidden = this.#pods.length === 0;
    if (pod && !pod.containers.some(({ name }) => name === this.#container)) this.#container = preferred(pod)?.name ?? "";
    fill(this.containers, JSON.stringify(pod?.containers.map(({ name, init }) => [name, init]) ?? []), () =>
      (pod?.containers ?? []).map(({ name, init }) => el("option", { value: name }, init ? `${name} (init)` : name)),
    );
    this.containers.value = this.#container;
    this.containers.hidden = (pod?.containers.length ?? 0) < 2;
    const container = pod?.containers.find(({ name }) => name === this.#container);
    if (this.#previous && !container?.previousLog) this.#previous = false;
    this.before.hidden = !container?.previousLog;
    put(this.before, "aria-pressed", String(this.#previous));
    say(this.name, pod?.name ?? "");
    this.name.hidden = !pod;
    if (this.#pod === ALL) {
      const readable = this.#pods.some((one) => one.containers.some(({ log, init }) => log && !init));
      if (readable) this.#openAll();
      else this.#leave("No rank has started yet. Its log appears as soon as it does.");
      return;
    }
    if (!pod) {
      if (!unread && this.#attempt !== null) this.#showRecorded();
      else this.#leave(unread ? `Logs are not shown: ${unread.message}.` : "There are no pods, and so no log.");
      return;
    }
    const path = this.#previous ? container?.previousLog : container?.log;
    if (!path) {
      this.#leave(container ? `Container ${container.name} has not started${container.reason ? ` (${container.reason})` : ""}. Its log appears as soon as it does.` : "The pod has no containers yet.");
      return;
    }
    // Another run of the container writes a log of its own.
    this.#openLog({ pod: pod.name, container: this.#container, previous: this.#previous || null }, runOf(pod, container));
  }

  /** Runs that start join the log of all ranks as long as it is asked for. One that has ended is asked for again. */
  #openAll() {
    const before = this.#runs;
    this.#runs = this.#pods.flatMap((pod) => pod.containers.filter(({ log, init }) => log && !init).map((container) => `${container.name} ${runOf(pod, container)}`)).join();
    const opened = this.#opened;
    this.#openLog({ pod: ALL, attempt: this.#attempt }, "");
    if (this.#opened === opened && this.#over && this.#runs !== before) this.#again();
  }

  /** Show the log of a container; without one, the pod's first. */
  open(pod, container) {
    this.#chosen = true;
    this.#pod = pod;
    this.#container = pod === ALL ? "" : container;
    this.#previous = false;
    this.#opened = "";
    this.show(this.#job);
    this.#keepChoice();
  }

  #keepChoice() {
    this.#keep({ log: { pod: this.#pod, container: this.#container, previous: this.#previous } });
  }

  #openLog(wanted, run) {
    const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
    if (`${query} ${run}` === this.#opened) return;
    this.#opened = `${query} ${run}`;
    this.#query = query;
    this.#found = { lines: [], more: false, place: -1 };
    this.#words = "";
    say(this.count, "");
    this.save.href = `${paths.job(this.#key)}/lines/file?${query}`;
    this.lines.clear();
    this.lines.setFollow(true);
    this.#read();
  }

  #pickPod() {
    this.#chosen = false;
    const failed = this.#job.row.state === "Failed" ? this.#job.attempts.findLast(({ failure }) => failure)?.failure : null;
    const current = this.#pods.filter((pod) => pod.current);
    const among = current.length ? current : this.#pods;
    const found =
      (failed && among.find(({ name }) => name === failed.pod)) ??
      among.find((pod) => pod.phase === "Failed") ??
      among.find((pod) => pod.containers.some(({ state, exitCode }) => state === "waiting" && exitCode)) ??
      among.find((pod) => pod.replicatedJob === "node" && pod.rank === 0) ??
      among[0];
    this.#pod = found?.name ?? "";
    this.#container = "";
    this.#previous = false;
  }

  #podOptions() {
    const option = (pod) => el("option", { value: pod.name }, `${pod.who} · ${pod.name.split("-").at(-1)}${pod.current || pod.attempt === null ? "" : ` · attempt ${pod.attempt}`}`);
    const all = this.#pods.length > 1 ? [el("option", { value: ALL }, "All ranks, merged by time")] : [];
    const [now, before] = [this.#pods.filter((pod) => pod.current), this.#pods.filter((pod) => !pod.current)];
    if (!before.length || !now.length) return [...all, ...this.#pods.map(option)];
    return [...all, el("optgroup", { label: "This attempt" }, ...now.map(option)), el("optgroup", { label: "Earlier attempts" }, ...before.map(option))];
  }

  /** Of an attempt whose pods are gone: the last lines of the pod that failed first, if they were recorded. */
  #showRecorded() {
    const failure = this.#job.attempts.find(({ number: one }) => one === this.#attempt)?.failure;
    const texts = failure?.log ?? [];
    this.#leave(`The pods of attempt ${this.#attempt} are gone${texts.length ? `. These are the last lines of pod ${failure.pod}, as they were recorded.` : ", and their logs with them."}`);
    if (!texts.length) return;
    this.lines.clear();
    this.lines.take({ total: texts.length, first: 0, texts, times: texts.map(() => ""), sources: texts.map(() => 0), names: [] });
    this.lines.node.hidden = false;
  }

  #leave(text) {
    this.#abort?.abort();
    clearTimeout(this.#retry);
    this.#opened = "";
    this.#show(false);
    say(this.state, text);
  }

  #show(on) {
    for (const node of [this.lines.node, this.views, this.search]) node.hidden = !on;
  }

  #path(more) {
    return `${paths.job(this.#key)}/lines?${this.#query}${more}`;
  }

  /** Lines of a range; null if another log was opened meanwhile, or they cannot be read now. */
  async #range(from, count) {
    const [abort, query] = [this.#abort, this.#query];
    try {
      const lines = await read(this.#path(`&from=${from}&count=${count}`), abort?.signal);
      return query === this.#query ? lines : null;
    } catch (error) {
      // The loop of `#read` says what is wrong.
      problemIn(error);
      return null;
    }
  }

  /** Ask how many lines there are, again and again as they come; those that are seen are asked for by `lines`. */
  async #read() {
    this.#abort?.abort();
    clearTimeout(this.#retry);
    const abort = new AbortController();
    this.#abort = abort;
    this.#over = false;
    this.#show(true);
    say(this.state, "Reading the log …");
    let known = null;
    try {
      for (;;) {
        const runs = this.#runs;
        const lines = await read(this.#path(known === null ? "&known=-1&from=-200&count=200" : `&known=${known}`), abort.signal);
        if (abort.signal.aborted) return;
        known = lines.total;
        this.lines.take(lines);
        this.#tell(lines);
        if (this.find.value && this.find.value !== this.#words) this.#search();
        if (!lines.follows && !lines.reading && runs === this.#runs) {
          this.#over = true;
          return;
        }
      }
    } catch (error) {
      if (abort.signal.aborted) return;
      const { reason, message } = problemIn(error);
      this.#show(this.lines.total > 0);
      const lasting = ["Forbidden", "NotFound", "BadRequest", "NoToken"].includes(reason);
      say(this.state, lasting ? sentence(message) : `${sentence(message)} Trying again.`);
      // After a break the lines are numbered again.
      if (!lasting) this.#retry = setTimeout(() => this.#again(), RETRY_MS);
    }
  }

  #again() {
    this.lines.clear();
    this.#words = "";
    this.#read();
  }

  #tell({ total, reading, follows, problems, cut }) {
    this.#show(total > 0 || problems.length === 0);
    const size = `${number(total)} ${total === 1 ? "line" : "lines"}.`;
    const state = reading
      ? `Reading the log: ${size}`
      : follows
        ? `${size} New lines appear as they come.`
        : total
          ? `${size} The log ends here.`
          : problems.length
            ? ""
            : "The log is empty.";
    const more = cut ? "The log is too large to be shown; its end is missing here and in the download." : "";
    say(this.state, [state, more, ...problems.map(sentence)].filter(Boolean).join(" "));
  }

  // -------------------------------------------------------------------- search

  #searchSoon() {
    clearTimeout(this.#searching);
    this.#searching = setTimeout(() => this.#search(), SEARCH_MS);
  }

  #searchKey(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      if (this.find.value !== this.#words) this.#search();
      else this.#step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && this.find.value) {
      event.preventDefault();
      this.find.value = "";
      this.#search();
    }
  }

  async #search() {
    clearTimeout(this.#searching);
    const words = this.find.value;
    this.#words = words;
    this.#keep({ find: words });
    if (!words) {
      this.#found = { lines: [], more: false, place: -1 };
      this.lines.mark("", -1);
      say(this.count, "");
      return;
    }
    try {
      const asked = `${paths.job(this.#key)}/lines/find?${this.#query}&text=${encodeURIComponent(words)}`;
      const { lines, more } = await (await request(asked, this.#abort?.signal)).json();
      if (words !== this.#words) return;
      // The last one first: it is the nearest to the end, where one looks.
      this.#found = { lines, more, place: lines.length - 1 };
      this.#showMatch();
    } catch (error) {
      const problem = problemIn(error);
      if (problem !== null) say(this.count, problem.message);
    }
  }

  #step(by) {
    const { lines, place } = this.#found;
    if (!lines.length) return;
    this.#found.place = (place + by + lines.length) % lines.length;
    this.#showMatch();
  }

  #showMatch() {
    const { lines, more, place } = this.#found;
    this.lines.mark(this.#words, lines[place] ?? -1);
    say(this.count, lines.length ? `${number(place + 1)} of ${number(lines.length)}${more ? " and more" : ""}` : "No line has this text");
  }

  #toggleWrap() {
    this.lines.setWrap(!this.lines.wrap);
    put(this.wrap, "aria-pressed", String(this.lines.wrap));
  }

  #toggleBefore() {
    this.#previous = !this.#previous;
    this.#chosen = true;
    this.#opened = "";
    this.show(this.#job);
    this.#keepChoice();
  }
}

/** What tells the runs of a container apart: times are whole seconds. */
function runOf(pod, container) {
  return `${container.started ?? ""} ${container.restarts} ${pod.uid}`;
}

function preferred(pod) {
  return pod.containers.find(({ exitCode, log }) => exitCode && log) ?? pod.containers.find(({ init, log }) => !init && log) ?? pod.containers.find(({ init }) => !init) ?? pod.containers[0];
}
