// What two rehearsals came to, side by side.

import { el } from "./dom.js";
import { number, percent, span } from "./words.js";

const ROWS = [
  ["Replica-hours", (each) => each.replica_hours, number],
  ["Changes of the count", (each) => each.changes, number],
  ["Turns between up and down", (each) => each.turns, number],
  ["Most replicas", (each) => each.most, number],
];

const OVER = [
  ["Time over waitingHigh", "waiting"],
  ["Time over ttftP95High", "ttft"],
  ["Time over kvCacheHigh", "kvCache"],
];

/** Write the table; the recorded count has no threshold of its own to be over. */
export function figures(node, { recorded, before, after, seconds, unseen }) {
  const rows = [
    ...ROWS.map(([name, pick, write]) => row(name, [recorded, before, after].map(pick), write)),
    ...OVER.map(([name, signal]) => row(name, [null, before.time_over[signal], after.time_over[signal]], span)),
  ];
  const heads = ["", "Recorded", "Your settings", "These", "Change"].map((each) =>
    each ? el("th", { scope: "col" }, each) : el("td"),
  );
  const missing = unseen > 0 ? ` Nothing was heard for ${span(unseen)} of it.` : "";
  node.replaceChildren(
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures before and after" },
      el("table", { class: "figures" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)),
    ),
    el("p", { class: "muted" }, `Over ${span(seconds)}.${missing}`),
  );
}

function row(name, [recorded, before, after], write) {
  const shown = (value) => (value === null ? "–" : write(value));
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, name),
    ...[recorded, before, after].map((value) => el("td", { class: "number" }, shown(value))),
    el("td", { class: "number" }, change(before, after)),
  );
}

function change(before, after) {
  if (before === after) return "same";
  const sign = after > before ? "+" : "−";
  return before > 0 ? `${sign}${percent(Math.abs(after - before) / before)}` : `${sign}`;
}
