// SPDX-License-Identifier: Apache-2.0
// Stop, resume, delete and run again: only what the viewer may, and each behind a question.

import { change, paths, problemIn, read } from "../api.js";
import { announce, button, el, say } from "../dom.js";
import { sentence } from "../format.js";
import { hrefOf } from "../jobs/row.js";

const ACTIONS = {
  stop: {
    title: "Stop",
    about: "Its pods end with their grace; the job stays. Resume starts them again, from their checkpoints if the training writes any.",
  },
  resume: { title: "Resume", about: "Its pods start again, from their checkpoints if the training writes any." },
  again: { title: "Run again", about: "A new job of the same spec starts under a generated name. This one stays as it is." },
  delete: { title: "Delete", about: "Its pods end, and its logs, curves and record of failures go with it. Files that the training wrote stay." },
};

export class Actions {
  #key;
  #job = null;
  #allowed = null;
  #wanted = "";
  #abort = new AbortController();

  constructor(key) {
    this.#key = key;
    this.buttons = Object.entries(ACTIONS).map(([name, { title }]) =>
      button(title, () => this.#ask(name), { hidden: true, "aria-haspopup": "dialog", dataset: { action: name } }),
    );
    this.done = el("p.action-done", { hidden: true });
    this.title = el("h2", { id: "action-title" });
    this.about = el("p");
    this.failed = el("p.action-failed", { role: "alert", hidden: true });
    this.confirm = button("", () => this.#do());
    const cancel = button("Cancel", () => this.dialog.close(), { autofocus: true });
    this.dialog = el("dialog.confirm", { "aria-labelledby": "action-title" }, this.title, this.about, this.failed, el("div.actions", {}, cancel, this.confirm));
    this.node = el("div.job-actions", { role: "group", "aria-label": "Actions", hidden: true }, ...this.buttons, this.dialog);
  }

  close() {
    this.#abort.abort();
  }

  async show(job) {
    this.#job = job;
    if (this.#allowed === null) await this.#read();
    this.#show();
  }

  async #read() {
    this.#allowed = [];
    try {
      const { allowed } = await read(`${paths.job(this.#key)}/actions`, this.#abort.signal);
      this.#allowed = allowed;
    } catch (error) {
      this.#allowed = null;
      problemIn(error);
    }
  }

  #show() {
    const { row, suspended } = this.#job;
    const over = row.state === "Complete" || row.state === "Failed";
    const makesSense = { stop: !over && !suspended, resume: !over && suspended, again: true, delete: true };
    for (const button of this.buttons) {
      const { action } = button.dataset;
      button.hidden = row.deleting || !makesSense[action] || !this.#allowed?.includes(action);
    }
    this.node.hidden = this.buttons.every((button) => button.hidden);
  }

  #ask(action) {
    this.#wanted = action;
    const { title, about } = ACTIONS[action];
    say(this.title, `${title} ${this.#key.name}?`);
    say(this.about, about);
    say(this.confirm, title);
    this.confirm.dataset.tone = action === "delete" || action === "stop" ? "failed" : "running";
    this.failed.hidden = true;
    this.dialog.showModal();
  }

  async #do() {
    this.confirm.disabled = true;
    try {
      const uid = encodeURIComponent(this.#job.row.uid);
      const done = await change(`${paths.job(this.#key)}/actions/${this.#wanted}?uid=${uid}`);
      this.dialog.close();
      const text = sentence(done.message);
      const link = done.name ? el("a", { href: hrefOf(done) }, `Open ${done.name}`) : null;
      this.done.replaceChildren(text, ...(link ? [" ", link] : []));
      this.done.hidden = false;
      announce(text);
    } catch (error) {
      this.failed.hidden = false;
      say(this.failed, sentence(problemIn(error).message));
    } finally {
      this.confirm.disabled = false;
    }
  }
}
