// SPDX-License-Identifier: Apache-2.0
// The jobs of the list that are chosen to be compared. They stay chosen on the way to another view and back.

import { MOST, hrefOf } from "../compare/selection.js";
import { button, el, keep, kept, put, say } from "../dom.js";
import { counted } from "../format.js";
import { keyOf } from "./selection.js";

const STORED = "chosen";

class Chosen {
  #jobs = new Map(stored());

  get jobs() {
    return [...this.#jobs.values()];
  }

  has(job) {
    return this.#jobs.has(keyOf(job));
  }

  set(job, wanted) {
    if (wanted) this.#jobs.set(keyOf(job), { namespace: job.namespace, name: job.name });
    else this.#jobs.delete(keyOf(job));
    keep("session", STORED, JSON.stringify(this.jobs));
  }

  replace(jobs) {
    for (const job of this.jobs) this.set(job, false);
    for (const job of jobs) this.set(job, true);
  }
}

/** What an earlier load of the page has kept. */
function stored() {
  const jobs = JSON.parse(kept("session", STORED) || "[]");
  return jobs.map(({ namespace, name }) => [keyOf({ namespace, name }), { namespace, name }]);
}

export const chosen = new Chosen();

/** The checkbox of a row; `showChoice` says which job it is for. */
export function choiceOf(changed) {
  const box = el("input.choose", {
    type: "checkbox",
    onchange: () => {
      chosen.set(box.job, box.checked);
      changed();
    },
  });
  return box;
}

export function showChoice(box, row) {
  box.job = row;
  box.checked = chosen.has(row);
  put(box, "aria-label", `Choose ${row.name} to compare`);
}

/** The bar that appears once a job is chosen. */
export class ChoiceBar {
  /** @param cleared called when no job is chosen any more */
  constructor(cleared) {
    this.words = el("span", { role: "status" });
    this.go = el("a.button.primary", {}, "Compare");
    const clear = button("Choose none", () => {
      chosen.replace([]);
      cleared();
    });
    this.node = el("div.choice-bar.card", { role: "region", "aria-label": "Compare", hidden: true }, this.words, el("span.spring"), clear, this.go);
  }

  show() {
    const { jobs } = chosen;
    this.node.hidden = jobs.length === 0;
    const advice = jobs.length === 1 ? "choose another one to compare" : jobs.length > MOST ? `at most ${MOST} can be compared` : "";
    say(this.words, [`${counted(jobs.length, "job")} chosen`, advice].filter(Boolean).join("; "));
    // A link without an address cannot be followed.
    const works = jobs.length > 1 && jobs.length <= MOST;
    put(this.go, "href", works ? hrefOf(jobs) : null);
    put(this.go, "aria-disabled", works ? null : "true");
    put(this.go, "role", works ? null : "link");
  }
}
