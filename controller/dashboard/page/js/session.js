// SPDX-License-Identifier: Apache-2.0
// Whether the server that answers is the one this page came from. While the dashboard does not run, another program
// may take its port; a browser would send that one the cookie and the secret path with the next request.

const WAIT_MS = 5000;
/** `Session` of the contract; null: not read yet. */
let session = null;
let suspicious = false;

/**
 * Why a request was not answered; `reason` is a word of the contract, or `Lost` if the dashboard does not answer, or
 * `Stranger` if another program does.
 */
export class Problem extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

/** What the user types to have the dashboard again; empty: not known. */
export const command = () => session?.command ?? "";

/** What a POST must bring. */
export const actionToken = () => session?.actionToken ?? "";

/** Remember the session, once it has been read. */
export function hold(found) {
  session = found;
}

/** The server did not answer, or has stopped: what answers next may be another program. */
export function suspect() {
  suspicious = true;
}

/** Return when the server has proved to be the one that this page knows. Throws Problem. */
export async function proved() {
  if (!suspicious || !session?.proofKey) return;
  const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  let told = "";
  try {
    const asked = { credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(WAIT_MS) };
    const response = await fetch(`/proof?nonce=${nonce}`, asked);
    told = response.ok ? (await response.text()).slice(0, 200) : "";
  } catch {
    throw lost();
  }
  if (told !== (await digest(session.proofKey, nonce))) {
    const why = "its token was renewed, or another program has taken its port";
    throw new Problem("Stranger", `What answers here is not the dashboard that this page came from: ${why}.`);
  }
  suspicious = false;
}

/** That nothing answers, and how to mend it. */
export function lost() {
  return new Problem("Lost", "The dashboard does not answer.");
}

async function digest(key, text) {
  const encoder = new TextEncoder();
  const made = await crypto.subtle.importKey("raw", encoder.encode(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", made, encoder.encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
