// SPDX-License-Identifier: Apache-2.0
// Times and numbers as people read them, in the words of `trainwright progress`.

const UNITS = ["KiB", "MiB", "GiB", "TiB"];

export const NONE = "–";

/** Two units at most: `42s`, `13m`, `1h05m`, `2d03h`. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 100) return `${whole}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
  return `${Math.floor(minutes / 1440)}d${two(Math.floor(minutes / 60) % 24)}h`;
}

/** The same in words, for screen readers and titles. */
export function spokenDuration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]]) {
    if (whole >= size || unit === "second") {
      const count = Math.floor(whole / size);
      return `${count} ${unit}${count === 1 ? "" : "s"}`;
    }
  }
  return "";
}

/** Seconds since 1970 of a time as the API writes it; null without one. */
export function secondsOf(text) {
  const parsed = text ? Date.parse(text) : Number.NaN;
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

/** `3s ago`. */
export function age(moment, now) {
  return moment === null || moment === undefined ? NONE : `${duration(now - moment)} ago`;
}

/** Four digits that count. Other text stays as it is. */
export function number(value) {
  if (value === null || value === undefined || value === "") return NONE;
  const parsed = Number(value);
  if (!Number.isFinite(parsed)) return String(value);
  const size = Math.abs(parsed);
  if (Number.isInteger(parsed) && size < 1e9) return parsed.toLocaleString("en");
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return exponential(parsed);
  return String(Number(parsed.toPrecision(4)));
}

/** `512 KiB`, `1.5 GiB`: three digits at most. */
export function bytes(value) {
  let [size, unit] = [value / 1024, 0];
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 ? Number(size.toFixed(1)) : Math.round(size)} ${UNITS[unit]}`;
}

/** A number at the vertical axis, which has room for `-900,000` and not for millions. */
export function tick(value) {
  return Math.abs(value) < 1e6 ? number(value) : exponential(value);
}

function exponential(value) {
  return value.toExponential(3).replace(/\.?0+e/, "e");
}

/** The time of day, with the date where it is not today. */
export function clock(moment, now = Date.now() / 1000) {
  const date = new Date(moment * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return date.toDateString() === new Date(now * 1000).toDateString() ? time : `${day(date)} ${time}`;
}

/** `1 job`, `2 jobs`. */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** A message of the cluster as a sentence. */
export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return !begun || /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

// Sequences that steer a terminal: colours, titles, cursors.
const STEERING = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g;
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** A line of a log as a terminal would leave it: what a carriage return overwrites is gone, and nothing steers. */
export function plain(line) {
  return line.replace(/\r+$/, "").replace(/^.*\r/, "").replace(STEERING, "").replace(CONTROL, "\ufffd");
}

function day(date) {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function two(value) {
  return String(value).padStart(2, "0");
}
