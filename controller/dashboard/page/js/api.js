// SPDX-License-Identifier: Apache-2.0
// Requests and event streams of `contract.py`.

import { setClock } from "./clock.js";
import { Problem, actionToken, hold, lost, proved, suspect } from "./session.js";

export { Problem };

const ROOT = "api/v1";
const SILENCE_MS = 45_000;
const HIDDEN_MS = 60_000;
const DELAYS_MS = [500, 1000, 2000, 4000, 8000];

export const paths = {
  compare: () => `${ROOT}/compare`,
  jobs: () => `${ROOT}/jobs`,
  search: (key) => `${ROOT}/searches/${encodeURIComponent(key.namespace)}/${encodeURIComponent(key.name)}`,
  job: (key) => `${ROOT}/jobs/${encodeURIComponent(key.namespace)}/${encodeURIComponent(key.name)}`,
};

/** A response, checked. Throws Problem. */
export async function request(path, signal, more = {}) {
  await proved();
  let response;
  try {
    response = await fetch(path, { signal, credentials: "same-origin", cache: "no-store", ...more });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    suspect();
    throw lost();
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  throw new Problem(told?.reason ?? "InternalError", told?.message ?? `The dashboard answered ${response.status}.`);
}

/** A JSON document. Throws Problem. */
export async function read(path, signal) {
  const document = await (await request(path, signal)).json();
  if (document.now) setClock(document.now);
  return document;
}

/** The Problem that was caught; null: the view was left, and nothing is to be said. Anything else is thrown again. */
export function problemIn(error) {
  if (error.name === "AbortError") return null;
  if (!(error instanceof Problem)) throw error;
  return error;
}

/** Ask for a change. Throws Problem. */
export async function change(path) {
  // The session is read for itself, and may be on its way yet, or could not be read when the page was opened.
  if (!actionToken()) await readSession();
  const headers = { "X-Trainwright-Action": actionToken() };
  return (await request(path, undefined, { method: "POST", headers })).json();
}

/** Read what this page needs to come back after the dashboard was away. */
export async function readSession() {
  try {
    hold(await read(`${ROOT}/session`));
  } catch (error) {
    problemIn(error);
  }
}

/**
 * Follow a stream until it is closed. A broken one is opened again; its first event replaces what is held.
 *
 * `onLink(state, detail)` is told `connecting`, `open`, `lost` (detail: why), `paused` (the page is hidden), `ended`
 * (detail: a Problem that trying again does not mend).
 */
export class Stream {
  #path;
  #probe;
  #handlers;
  #onLink;
  #source = null;
  #timer = 0;
  #watchdog = 0;
  #hidden = 0;
  #failures = 0;
  #closed = false;

  constructor(path, probe, handlers, onLink) {
    this.#path = path;
    this.#probe = probe;
    this.#handlers = handlers;
    this.#onLink = onLink;
    document.addEventListener("visibilitychange", this.#seen);
    this.#open();
  }

  close() {
    this.#closed = true;
    document.removeEventListener("visibilitychange", this.#seen);
    clearTimeout(this.#hidden);
    this.#stop();
  }

  /** A browser has few connections to one address: a page that is not seen gives its own back. */
  #seen = () => {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => {
        this.#stop();
        this.#onLink("paused", null);
      }, HIDDEN_MS);
    } else if (this.#source === null) {
      this.#failures = 0;
      this.#open();
    }
  };

  #stop() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watchdog);
    this.#source?.close();
    this.#source = null;
  }

  async #open() {
    this.#stop();
    this.#onLink("connecting", null);
    try {
      await proved();
    } catch (problem) {
      this.#lost(problem.message);
      return;
    }
    if (this.#closed || this.#source !== null) return;
    const source = new EventSource(this.#path);
    this.#source = source;
    for (const [name, handler] of Object.entries(this.#handlers)) {
      source.addEventListener(name, (event) => {
        const data = JSON.parse(event.data);
        if (data.now) setClock(data.now);
        this.#heard();
        handler(data);
      });
    }
    source.addEventListener("heartbeat", (event) => {
      setClock(JSON.parse(event.data).now);
      this.#heard();
    });
    source.addEventListener("bye", () => {
      suspect();
      this.#lost("The dashboard was stopped.");
    });
    source.onerror = () => this.#lost("The dashboard does not answer.");
  }

  #heard() {
    this.#failures = 0;
    this.#onLink("open", null);
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lost("The dashboard has been silent for 45 seconds."), SILENCE_MS);
  }

  async #lost(why) {
    this.#stop();
    if (this.#closed) return;
    suspect();
    const delay = DELAYS_MS[Math.min(this.#failures, DELAYS_MS.length - 1)];
    this.#failures += 1;
    this.#timer = setTimeout(() => this.#open(), delay);
    this.#onLink("lost", why);
    // An event stream does not tell the status of its answer.
    try {
      await (await request(this.#probe)).body?.cancel();
    } catch (problem) {
      if (this.#closed || ["Lost", "Stranger"].includes(problem.reason)) return;
      if (["NoToken", "ForeignHost", "ForeignOrigin"].includes(problem.reason)) this.#stop();
      this.#onLink("ended", problem);
    }
  }
}
