// SPDX-License-Identifier: Apache-2.0
// The frame of the page: which view is shown, how the dashboard is connected, theme and keys.

import { readSession } from "./api.js";
import { CompareView } from "./compare/view.js";
import { announce, el, fill, keep, put, say } from "./dom.js";
import { clock, secondsOf, sentence } from "./format.js";
import { JobView } from "./job/view.js";
import { JobsView, listAddress } from "./jobs/view.js";
import { SearchView } from "./search/view.js";
import { command } from "./session.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
const banner = document.getElementById("banner");
const themeButton = document.getElementById("theme");
const keysDialog = document.getElementById("keys-dialog");
const dark = matchMedia("(prefers-color-scheme: dark)");

/** State of the way to the dashboard's process, and of that process's way to the API server. */
let stream = { state: "connecting", detail: null };
let server = null;

const shell = {
  link(state, detail) {
    stream = { state, detail };
    showLink();
  },
  /** @param told whether the view itself says what is wrong */
  connection(connection, told = false) {
    server = { ...connection, told };
    showLink();
  },
  where(cluster) {
    const shown = [cluster.context || cluster.server, cluster.namespace ? `namespace ${cluster.namespace}` : ""];
    const place = document.getElementById("where");
    put(place, "title", cluster.server);
    fill(place, shown.join(), () => shown.filter(Boolean).map((text) => el("span", {}, text)));
  },
};

function showLink() {
  const [state, word, sentence] = standing();
  put(link, "data-link", state);
  say(link, word);
  banner.hidden = !sentence;
  say(document.getElementById("banner-text"), sentence);
  // Not at the start: the content tells that better.
  if (showLink.before && showLink.before !== word && word !== "Connecting") announce(`${word}. ${sentence}`);
  if (word !== "Connecting") showLink.before = word;
}

function standing() {
  if (stream.state === "ended") return ["lost", "Disconnected", sentence(stream.detail.message)];
  if (stream.state === "paused") return ["stale", "Paused", ""];
  if (stream.state === "lost") {
    const mend = command() ? ` If it does not come back by itself, use the address that this prints: ${command()}` : "";
    return ["lost", "Connection lost", `${stream.detail} What is shown may be old. Trying again.${mend}`];
  }
  if (server === null || server.state === "connecting") return ["connecting", "Connecting", ""];
  if (server.state === "live") return stream.state === "open" ? ["live", "Live", ""] : ["connecting", "Connecting", ""];
  const contact = secondsOf(server.lastContact);
  const message = sentence(server.message);
  const asOf = contact === null || message.includes("as of") ? "" : ` Shown as of ${clock(contact)}.`;
  const word = { lost: "API server lost", forbidden: "No rights", unauthorized: "Not logged in", missing: "No TrainJobs" };
  return ["stale", word[server.state] ?? server.state, server.told ? "" : `${message}${asOf}`];
}

let view = null;
let shown = null;

function route() {
  const [path, query = ""] = cut(location.hash.replace(/^#/, ""));
  const parts = path.split("/").filter(Boolean).map(decode);
  const compares = parts[0] === "compare" && parts.length === 1;
  const named = { jobs: JobView, searches: SearchView }[parts.length === 3 ? parts[0] : ""];
  const wanted = compares ? "compare" : named ? parts.join("/") : "";
  if (view !== null && wanted === shown) {
    view.ask(query);
    return;
  }
  const first = view === null;
  view?.close();
  shown = wanted;
  server = null;
  scrollTo({ top: 0 });
  view = compares
    ? new CompareView(main, query, shell)
    : named
      ? new named(main, { namespace: parts[1], name: parts[2] }, query, shell)
      : new JobsView(main, query, shell);
  // After a change of the view, the next key belongs to it.
  if (!first) view.title.focus({ preventScroll: true });
}

/** Path and query of the address; a query may hold a question mark. */
function cut(text) {
  const place = text.indexOf("?");
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function isDark() {
  return (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
}

function showTheme() {
  say(document.getElementById("theme-name"), isDark() ? "Light theme" : "Dark theme");
  put(themeButton, "title", isDark() ? "Light theme" : "Dark theme");
  dispatchEvent(new Event("theme"));
}

themeButton.addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  keep("local", "theme", theme);
  showTheme();
});
dark.addEventListener("change", showTheme);
document.getElementById("keys").addEventListener("click", () => keysDialog.showModal());
document.querySelector(".skip").addEventListener("click", (event) => {
  // The address names the view.
  event.preventDefault();
  main.focus();
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "?" && !typing && !keysDialog.open) keysDialog.showModal();
  // Back to the list, unless a field or a dialog has a use for the key.
  const isFree = !typing && !event.defaultPrevented && !document.querySelector("dialog[open]");
  if (event.key === "Escape" && shown && isFree) location.hash = listAddress();
});
addEventListener("hashchange", route);
showTheme();
readSession();
route();
