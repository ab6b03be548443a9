// The page: which view is shown, and what keeps it up to date.

import { el, say } from "./dom.js";
import { Feed, Refused, keepToken } from "./server.js";
import { Glance } from "./glance.js";
import { Desk } from "./desk.js";
import { Workload } from "./workload.js";
import { clock, zone } from "./words.js";

const THEMES = ["auto", "light", "dark"];

const content = document.getElementById("content");
const live = document.getElementById("live");
let view = null;
let asking = null;
let again = false;

/** Bring the view up to date; news that comes meanwhile is fetched once more afterwards. */
async function refresh() {
  if (view === null) return;
  if (asking !== null) {
    again = true;
    return;
  }
  const stop = new AbortController();
  asking = stop;
  try {
    await view.refresh(stop.signal);
    trouble(null);
  } catch (error) {
    if (!stop.signal.aborted) failed(error);
  }
  if (asking !== stop) return;
  asking = null;
  if (again) {
    again = false;
    refresh();
  }
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) askForToken(error.message);
  else if (error instanceof Refused) trouble(error.message);
  else if (error instanceof TypeError) return; // nobody answers: the feed says since when
  else throw error;
}

function trouble(message) {
  document.getElementById("trouble")?.remove();
  if (message !== null) {
    content.prepend(el("p", { id: "trouble", class: "trouble", role: "alert" }, message));
  }
}

function askForToken(message) {
  if (document.getElementById("token") !== null) return;
  leave();
  feed.close();
  waiting("token needed");
  const input = el("input", {
    type: "password",
    id: "token",
    autocomplete: "current-password",
    required: true,
  });
  const enter = (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    start();
  };
  const form = el(
    "form",
    { class: "token", onsubmit: enter },
    el("h1", {}, "This scaler asks for a token"),
    el("p", {}, message),
    el("label", { class: "field", for: "token" }, "Token", input),
    el("button", { type: "submit" }, "Open"),
    el("p", { class: "muted" }, "It is kept in this tab only, until the tab is closed."),
  );
  content.replaceChildren(form);
  input.focus();
}

/** Say in the header what is waited for: neither live nor lost. */
function waiting(told) {
  document.body.classList.remove("lost");
  document.body.classList.add("waiting");
  say(live, told);
}

function leave() {
  asking?.abort();
  asking = null;
  again = false;
  view?.close();
  view = null;
}

/** Choose the view by the address: #/, #/namespace/name/trigger, or the desk below that. */
function route() {
  leave();
  const [namespace, name, trigger, below] = location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .map(decoded);
  const place = { namespace, name, trigger };
  if (!name) view = new Glance(content);
  else view = below === "desk" ? new Desk(content, place) : new Workload(content, place);
  view.onChange = refresh;
  refresh();
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const feed = new Feed({
  onNews: refresh,
  onLive: () => {
    document.body.classList.remove("lost", "waiting");
    say(live, "live");
  },
  onLost: (since) => {
    document.body.classList.remove("waiting");
    document.body.classList.add("lost");
    say(live, `connection lost since ${clock(since)}`);
  },
  onDenied: (error) => askForToken(error.message),
});

function start() {
  waiting("connecting");
  route();
  feed.open();
}

function setTheme(theme) {
  const button = document.getElementById("theme");
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  say(button, `Theme: ${theme}`);
  button.onclick = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("scaler-theme", next);
    setTheme(next);
  };
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea") !== null;
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && view?.focusFilter) {
    event.preventDefault();
    view.focusFilter();
  }
}

const kept = localStorage.getItem("scaler-theme");
setTheme(THEMES.includes(kept) ? kept : "auto");
say(document.getElementById("clock"), zone());
addEventListener("hashchange", () => {
  route();
  content.focus({ preventScroll: false });
});
addEventListener("keydown", onKey);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind # says which view is shown
  content.focus();
});
start();
