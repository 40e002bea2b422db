// SPDX-License-Identifier: Apache-2.0
// What the job became: the objects that the manager makes of it, and who set which value.

import { paths, read } from "../api.js";
import { button, el, fill, panel, put, say, scrolling, table } from "../dom.js";
import { sentence } from "../format.js";
import { settingsOf } from "./provenance.js";

const TONES = 6;

export class Objects {
  #job;
  #answer = null;
  #uid = "";
  #over = false;
  #chosen = 0;
  #abort = new AbortController();

  constructor(job) {
    this.#job = job;
    this.state = el("p.none.muted");
    this.choices = el("div.choices.objects", { role: "group", "aria-label": "Objects" });
    this.legend = el("ul.legend", { "aria-label": "Who set the values" });
    this.text = scrolling("div.yaml.mono", "");
    this.settings = el("details.values", {}, el("summary", {}, "Every value and who set it"));
    this.refresh = button("Read again", () => this.#load(), { hidden: true });
    this.body = el("div", {}, el("div.panel-head", {}, this.choices, el("div.panel-tools", {}, this.refresh)), this.legend, this.text, this.settings);
    this.details = el(
      "details.objects-details",
      { ontoggle: () => this.details.open && !this.#answer && this.#load() },
      el("summary", {}, el("h2", { id: "objects-title" }, "What the job became"), el("span.muted.small", {}, "its objects, and who set which value")),
      this.state,
      this.body,
    );
    this.node = el("section.panel", { "aria-labelledby": "objects-title" }, this.details);
    this.body.hidden = true;
  }

  close() {
    this.#abort.abort();
  }

  show(job) {
    if (this.#uid && this.#uid !== job.row.uid) {
      this.#answer = null;
      if (this.details.open) this.#load();
    }
    this.#uid = job.row.uid;
    this.#over = job.row.state === "Complete" || job.row.state === "Failed";
  }

  async #load() {
    say(this.state, "Rendering the job …");
    this.state.hidden = false;
    try {
      this.#answer = await read(`${paths.job(this.#job)}/objects`, this.#abort.signal);
    } catch (error) {
      if (error.name !== "AbortError") say(this.state, error.message);
      return;
    }
    const { objects, problems } = this.#answer;
    this.state.hidden = objects.length > 0 && problems.length === 0;
    say(this.state, problems.map(sentence).join("\n") || (this.#over ? "The job has ended, so the manager makes nothing of it any more." : "The job becomes no objects."));
    this.body.hidden = objects.length === 0;
    this.refresh.hidden = false;
    // What trains is in the JobSet.
    this.#chosen = Math.max(0, objects.findIndex(({ kind }) => kind === "JobSet"));
    this.#draw();
  }

  #draw() {
    const { objects, settings, overrides } = this.#answer;
    const shown = objects[this.#chosen];
    if (!shown) return;
    fill(this.choices, JSON.stringify(objects.map(({ kind, name }) => [kind, name])), () =>
      objects.map(({ kind, name }, place) => button(`${kind} ${name}`, () => this.#choose(place))),
    );
    [...this.choices.children].forEach((button, place) => put(button, "aria-pressed", String(place === this.#chosen)));
    put(this.text, "aria-label", `${shown.kind} ${shown.name} as YAML`);
    const lines = shown.yaml.replace(/\n$/, "").split("\n");
    // The paths of settings are those of the JobSet.
    const by = shown.kind === "JobSet" ? settingsOf(lines, settings) : lines.map(() => null);
    const sources = [...new Set(by.filter(Boolean).map(({ source }) => source))];
    const tone = (source) => String((sources.indexOf(source) % TONES) + 1);
    this.legend.hidden = sources.length === 0;
    fill(this.legend, sources.join("\n"), () => sources.map((source) => el("li", { dataset: { series: tone(source) } }, source)));
    fill(this.text, `${this.#chosen}${shown.yaml}`, () =>
      lines.map((line, place) => {
        const setting = by[place];
        const made = el("div.line", setting ? { dataset: { series: tone(setting.source) }, title: `${setting.phase}: ${setting.why}` } : {}, el("span.code", {}, line || " "));
        if (setting) made.append(el("span.by", { "aria-hidden": "true" }, setting.source));
        return made;
      }),
    );
    const title = "Every value and who set it";
    const row = ({ path, value, source, phase, why }) =>
      el("tr", {}, el("th.mono", { scope: "row" }, path), el("td.mono", {}, value), el("td", {}, source), el("td.small", {}, why, el("span.muted", {}, ` (${phase})`)));
    fill(this.settings, JSON.stringify([settings, overrides]), () => [
      el("summary", {}, title),
      scrolling("div.table-scroll", title, table("table.plain.settings", ["Path", "Value", "Set by", "Why"], el("tbody", {}, ...settings.map(row)))),
      overrides.length
        ? el("ul.overrides.small", { "aria-label": "Replaced values" }, ...overrides.map(({ path, loser, winner }) => el("li", {}, el("span.mono", {}, path), `: ${winner} replaced what ${loser} had set`)))
        : null,
    ]);
  }

  #choose(place) {
    this.#chosen = place;
    this.#draw();
  }
}
