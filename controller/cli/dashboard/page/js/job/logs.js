// SPDX-License-Identifier: Apache-2.0
// The log of a container: its last lines, and those that come.

import { Problem, request } from "../api.js";
import { el, fill, put, say } from "../dom.js";
import { plain, sentence } from "../format.js";
import { rankOf } from "./pods.js";

const TAIL = 500;
const MOST_LINES = 5000;
const RETRY_MS = 3000;

export class Logs {
  #pods = [];
  #pod = "";
  #container = "";
  #previous = false;
  #chosen = false;
  #opened = "";
  #abort = null;
  #retry = 0;
  #rest = "";
  #fresh = false;
  #job = null;

  constructor() {
    this.pods = el("select.choice", { "aria-label": "Pod", onchange: () => this.open(this.pods.value, "") });
    this.containers = el("select.choice", { "aria-label": "Container", onchange: () => this.open(this.#pod, this.containers.value) });
    this.before = el("button.button", { type: "button", "aria-pressed": "false", onclick: () => this.#toggleBefore() }, "Run before");
    this.follow = el("button.button", { type: "button", "aria-pressed": "true", onclick: () => this.#toggleFollow() }, "Follow");
    this.wrap = el("button.button", { type: "button", "aria-pressed": "false", onclick: () => this.#toggleWrap() }, "Wrap");
    this.views = el("div.views", {}, this.wrap, this.follow);
    // Lines come fast: a screen reader reads them on demand only.
    this.lines = el("pre.log.mono", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log" });
    this.state = el("p.log-state.muted.small", { role: "status" });
    this.lines.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.node = el(
      "section.panel",
      { "aria-labelledby": "log-title", id: "log" },
      el(
        "div.panel-head",
        {},
        el("h2", { id: "log-title", tabindex: "-1" }, "Log"),
        el("div.panel-tools", {}, this.pods, this.containers, this.before, this.views),
      ),
      this.lines,
      this.state,
    );
  }

  close() {
    this.#abort?.abort();
    clearTimeout(this.#retry);
  }

  show(job) {
    this.#job = job;
    this.#pods = job.pods;
    const unread = job.unread.find(({ part }) => part === "pods");
    if (!this.#pods.some(({ name }) => name === this.#pod) || (!this.#chosen && !this.#opened)) this.#pickPod();
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
    if (!pod) {
      this.#leave(unread ? `Logs are not shown: ${unread.message}.` : "There are no pods, and so no log.");
      return;
    }
    const path = this.#previous ? container?.previousLog : container?.log;
    if (!path) {
      this.#leave(container ? `Container ${container.name} has not started${container.reason ? ` (${container.reason})` : ""}. Its log appears as soon as it does.` : "The pod has no containers yet.");
      return;
    }
    // Another run of the container writes a log of its own.
    const wanted = `${path} ${container.started ?? ""} ${pod.uid}`;
    if (wanted !== this.#opened) {
      this.#opened = wanted;
      this.#read(path, !this.#previous);
    }
  }

  /** Show the log of a container; without one, the pod's first. */
  open(pod, container) {
    this.#chosen = true;
    this.#pod = pod;
    this.#container = container;
    this.#previous = false;
    this.#opened = "";
    this.#setFollow(true);
    this.show(this.#job);
  }

  #pickPod() {
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
  }

  #podOptions() {
    const option = (pod) => el("option", { value: pod.name }, `${rankOf(pod)} · ${pod.name}${pod.current || pod.attempt === null ? "" : ` · attempt ${pod.attempt}`}`);
    const [now, before] = [this.#pods.filter((pod) => pod.current), this.#pods.filter((pod) => !pod.current)];
    if (!before.length || !now.length) return this.#pods.map(option);
    return [el("optgroup", { label: "This attempt" }, ...now.map(option)), el("optgroup", { label: "Earlier attempts" }, ...before.map(option))];
  }

  #leave(text) {
    if (this.#opened) this.lines.replaceChildren();
    this.#abort?.abort();
    this.#opened = "";
    this.lines.hidden = true;
    this.views.hidden = true;
    say(this.state, text);
  }

  async #read(path, follow) {
    this.#abort?.abort();
    clearTimeout(this.#retry);
    const abort = new AbortController();
    this.#abort = abort;
    this.#rest = "";
    this.#fresh = true;
    this.lines.hidden = false;
    this.views.hidden = false;
    say(this.state, "Reading the log …");
    try {
      const response = await request(`${path}&tail=${TAIL}${follow ? "&follow=true" : ""}`, abort.signal);
      say(this.state, follow ? "New lines appear as they come." : "");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.#add(value);
      }
      this.#add("", true);
      say(this.state, this.lines.childElementCount || this.lines.textContent ? "The log ends here." : "The log is empty.");
    } catch (error) {
      if (abort.signal.aborted) return;
      this.lines.hidden = !this.lines.textContent;
      this.views.hidden = this.lines.hidden;
      const told = error instanceof Problem ? error.message : "The connection to the log was lost.";
      const lasting = error instanceof Problem && ["Forbidden", "NotFound", "BadRequest", "NoToken"].includes(error.reason);
      say(this.state, lasting ? sentence(told) : `${sentence(told)} Trying again.`);
      if (!lasting) this.#retry = setTimeout(() => this.#read(path, follow), RETRY_MS);
    }
  }

  #add(text, last = false) {
    const all = this.#rest + text;
    const end = last ? all.length : all.lastIndexOf("\n") + 1;
    this.#rest = all.slice(end);
    // After a break the last lines come again: they replace what was shown, so that none is shown twice.
    if (this.#fresh) this.lines.replaceChildren();
    this.#fresh = false;
    if (!end) return;
    const lines = all.slice(0, end).replace(/\n$/, "").split("\n").map(plain);
    const follows = this.follow.getAttribute("aria-pressed") === "true";
    const block = el("span", {}, `${lines.join("\n")}\n`);
    block.lines = lines.length;
    this.lines.append(block);
    let count = 0;
    for (const child of this.lines.children) count += child.lines;
    while (count > MOST_LINES && this.lines.childElementCount > 1) {
      count -= this.lines.firstElementChild.lines;
      this.lines.firstElementChild.remove();
    }
    if (follows) this.lines.scrollTop = this.lines.scrollHeight;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.lines;
    const atEnd = scrollHeight - scrollTop - clientHeight < 30;
    // Who scrolls up wants to read; who scrolls to the end wants to follow.
    put(this.follow, "aria-pressed", String(atEnd));
  }

  #setFollow(on) {
    put(this.follow, "aria-pressed", String(on));
    if (on) this.lines.scrollTop = this.lines.scrollHeight;
  }

  #toggleFollow() {
    this.#setFollow(this.follow.getAttribute("aria-pressed") !== "true");
  }

  #toggleWrap() {
    put(this.wrap, "aria-pressed", String(this.lines.classList.toggle("wrapped")));
  }

  #toggleBefore() {
    this.#previous = !this.#previous;
    this.#opened = "";
    this.show(this.#job);
  }
}

function preferred(pod) {
  return pod.containers.find(({ exitCode, log }) => exitCode && log) ?? pod.containers.find(({ init, log }) => !init && log) ?? pod.containers.find(({ init }) => !init) ?? pod.containers[0];
}
