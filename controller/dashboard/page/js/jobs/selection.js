// SPDX-License-Identifier: Apache-2.0
// Which jobs are listed, and in which order. Pure, and kept in the address, so that a view can be shared and found again.

import { now } from "../clock.js";
import { secondsOf } from "../format.js";
import { STATES } from "../states.js";

export const COLUMNS = [
  { id: "name", title: "Job" },
  { id: "state", title: "State" },
  { id: "progress", title: "Progress" },
  { id: "parameters", title: "Parameters" },
  { id: "eta", title: "ETA" },
  { id: "report", title: "Last report" },
  { id: "created", title: "Created" },
  { id: "duration", title: "Duration" },
  { id: "loss", title: "Loss" },
];

const NEWEST = "created";

export const keyOf = (object) => `${object.namespace}/${object.name}`;

/** What the address asks for. */
export function parse(query) {
  const asked = new URLSearchParams(query);
  const [column, direction] = (asked.get("sort") ?? "").split(".");
  return {
    text: asked.get("q") ?? "",
    states: new Set((asked.get("state") ?? "").split(",").filter((state) => STATES.includes(state))),
    namespace: asked.get("ns") ?? "",
    column: COLUMNS.some(({ id }) => id === column) ? column : NEWEST,
    descending: direction === "down",
  };
}

/** The address for a selection; empty for the default. */
export function format(selection) {
  const asked = new URLSearchParams();
  if (selection.text) asked.set("q", selection.text);
  if (selection.states.size) asked.set("state", [...selection.states].join(","));
  if (selection.namespace) asked.set("ns", selection.namespace);
  if (selection.column !== NEWEST || selection.descending) {
    asked.set("sort", `${selection.column}.${selection.descending ? "down" : "up"}`);
  }
  return asked.toString();
}

/** The rows to list, sorted. Each word of the text must be in name, namespace, runtime, state or reason. */
export function select(rows, selection) {
  const words = selection.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const row of rows) {
    if (selection.namespace && row.namespace !== selection.namespace) continue;
    if (selection.states.size && !selection.states.has(row.state)) continue;
    if (words.length) {
      const text = `${keyOf(row)} ${row.runtime.name} ${row.state} ${row.reason} ${row.waiting} ${row.stalled}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(row);
  }
  const order = ORDERS[selection.column];
  const keyed = found.map((row) => ({ row, value: order(row), created: secondsOf(row.created) ?? 0, key: keyOf(row) }));
  const sense = selection.descending ? -1 : 1;
  keyed.sort((a, b) => compare(a.value, b.value, sense) || b.created - a.created || (a.key < b.key ? -1 : 1));
  return keyed.map(({ row, key }) => ({ key, row }));
}

/** The parameters that differ among rows, by name: those that most of the rows have come first. */
export function differing(rows) {
  const values = new Map();
  const counts = new Map();
  for (const { parameters } of rows) {
    for (const [name, value] of Object.entries(parameters)) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
      values.set(name, values.get(name)?.add(value) ?? new Set([value]));
    }
  }
  const found = [...counts.keys()].filter((name) => values.get(name).size > 1 || counts.get(name) < rows.length);
  return found.sort((a, b) => counts.get(b) - counts.get(a));
}

/** How many rows there are of each state. */
export function countStates(rows) {
  const counts = new Map();
  for (const row of rows) {
    const state = row.state;
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return counts;
}

/** What is youngest comes first. */
function youngest(text) {
  const moment = secondsOf(text);
  return moment === null ? null : -moment;
}

/** How many seconds a job has taken so far; null: not known. */
export function took(row, moment) {
  const created = secondsOf(row.created);
  return created === null ? null : (secondsOf(row.finished) ?? moment) - created;
}

const ORDERS = {
  name: (row) => row.name,
  state: (row) => STATES.indexOf(row.state),
  progress: (row) => row.percentage,
  eta: (row) => (row.remaining ? secondsOf(row.remaining.at) : null),
  report: (row) => youngest(row.lastReport),
  created: (row) => youngest(row.created),
  duration: (row) => took(row, now()),
  parameters: ({ parameters }) => Object.entries(parameters).flat().join(" ") || null,
  loss: (row) => {
    const value = row.loss ? Number(row.loss.value) : Number.NaN;
    return Number.isFinite(value) ? value : null;
  },
};

/** For sorting. Without a value comes last, in both directions; numbers come before words. */
export function compare(a, b, sense) {
  const [left, right] = [a ?? null, b ?? null];
  if (left === right) return 0;
  if (left === null) return 1;
  if (right === null) return -1;
  if (typeof left !== typeof right) return typeof left === "number" ? -sense : sense;
  return left < right ? -sense : sense;
}
