// SPDX-License-Identifier: Apache-2.0
// The clock of the dashboard's process: ages count from it, because the browser's clock may be wrong.

let offset = 0;

/** Take the `now` of an answer, RFC 3339. */
export function setClock(text) {
  const parsed = Date.parse(text);
  if (!Number.isNaN(parsed)) offset = parsed / 1000 - Date.now() / 1000;
}

/** Seconds since 1970. */
export function now() {
  return Date.now() / 1000 + offset;
}
