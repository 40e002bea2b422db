// SPDX-License-Identifier: Apache-2.0
// What pods use now, in the table of pods. It changes often: only texts are touched, so that nothing loses the keyboard.

import { put, say } from "../dom.js";
import { NONE, bytes, number } from "../format.js";

/** The columns, each with what it shows of `Usage` of the contract; empty: nothing is known. */
export const USES = [
  { title: "CPU", short: "CPU", text: ({ cpu }) => (cpu === null ? "" : cpu.toFixed(2)) },
  { title: "Memory", short: "", text: ({ memory }) => (memory === null ? "" : bytes(memory)) },
  { title: "GPU", short: "GPU", text: ({ gpu, gpuMemory }) => [gpu === null ? "" : `${number(gpu)} busy`, gpuMemory === null ? "" : bytes(gpuMemory)].filter(Boolean).join(", ") },
];
/** Behind pod, state, node and restarts. */
const FIRST = 4;

/** @param pods those of the rows, in their order */
export function showUsage(table, pods) {
  const texts = pods.map(({ usage }) => USES.map(({ text }) => (usage ? text(usage) : "")));
  const known = USES.map((_, place) => texts.some((row) => row[place] !== ""));
  const heads = table.tHead.rows[0].cells;
  known.forEach((is, place) => put(heads[FIRST + place], "hidden", !is));
  [...table.tBodies[0].rows].forEach((row, index) => {
    known.forEach((is, place) => {
      const cell = row.cells[FIRST + place];
      put(cell, "hidden", !is);
      say(cell, texts[index][place] || NONE);
    });
    // A narrow page has no room for the columns.
    const short = USES.map(({ short: word }, place) => (texts[index][place] ? `${word} ${texts[index][place]}`.trim() : ""));
    say(row.querySelector(".pod-uses"), short.filter(Boolean).join(" · "));
  });
}
