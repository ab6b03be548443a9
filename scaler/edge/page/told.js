// What the scaler says in words: the reason, the diagnosis, the decision log.

import { el, keyed, say } from "./dom.js";
import { SIGNALS, clock, replicas, span } from "./words.js";

const listed = (sentences) => el("ul", {}, ...sentences.map((each) => el("li", {}, each)));

/** Write the reason of the present answer, and all that was noted beside it. */
export function why(node, explained) {
  const told = [explained.because, ...explained.notes];
  const troubles = [explained.trouble, explained.fault].filter(Boolean);
  node.replaceChildren(
    el("p", {}, explained.summary),
    ...told.map(({ reason, meaning, cure }) =>
      el("p", {}, el("strong", {}, reason), ` ${meaning} `, el("span", { class: "muted" }, cure)),
    ),
    ...troubles.map((each) => el("p", { class: "trouble" }, each)),
    el("p", { class: "muted" }, `Decided at ${clock(explained.at)}. ${corridor(explained)}`),
  );
}

function corridor({ floor, ceiling, floor_because, ceiling_because }) {
  if (floor === null) return "The corridor is not known.";
  const beneath = `at least ${floor}${floor_because ? ` (${floor_because})` : ""}`;
  const above = ceiling === null ? "no ceiling proven" : `at most ${ceiling}`;
  return `Demand needs ${beneath}, ${above}${ceiling_because ? ` (${ceiling_because})` : ""}.`;
}

/** Write how each signal stands, for how long it has lasted, and what would change the answer. */
export function reasons(node, explained) {
  const signals = explained.signals.map(({ signal, in_use, sentence, rows }) =>
    el(
      "li",
      {},
      el("strong", {}, SIGNALS[signal]?.name ?? signal),
      `: ${sentence}${in_use ? "" : " (not in use)"}`,
      rows.length > 0 ? listed(rows.map((row) => row.sentence)) : null,
    ),
  );
  const blocks = [
    ["Signals", signals.length > 0 ? el("ul", {}, ...signals) : null],
    ["Sustained", held(explained)],
    ["What would change the answer", some(explained.would_change)],
    ["Learned", some(explained.learned?.sentences ?? [])],
  ];
  node.replaceChildren(
    ...blocks.filter(([, body]) => body).flatMap(([title, body]) => [el("h3", {}, title), body]),
  );
}

const some = (sentences) => (sentences.length > 0 ? listed(sentences) : null);

function held({ overload, calm }) {
  const found = [
    ["Overload", overload],
    ["Calm", calm],
  ].filter(([, each]) => each !== null);
  if (found.length === 0) return null;
  return el(
    "ul",
    { class: "held" },
    ...found.map(([name, { held_for, needed, samples, ticks }]) =>
      el(
        "li",
        {},
        `${name} for ${span(held_for)} of ${span(needed)} `,
        el("progress", { max: needed, value: Math.min(held_for, needed), "aria-label": `${name} sustained` }),
        el("span", { class: "muted" }, ` ${samples} of ${ticks} samples`),
      ),
    ),
  );
}

/** Write what is wrong and what to do, the gravest first. */
export function findings(node, diagnosed) {
  const { findings: found, not_known: unlooked, cannot } = diagnosed;
  node.replaceChildren(
    found.length > 0
      ? el("ul", { class: "findings" }, ...found.map(finding))
      : el("p", {}, "Nothing is wrong as far as could be looked at."),
    ...cannot.map((each) => el("p", { class: "muted" }, each)),
    ...unlooked.length > 0
      ? [el("details", {}, el("summary", {}, `${unlooked.length} could not be looked at`), listed(unlooked.map(({ kind, why: because }) => `${kind}: ${because}`)))]
      : [],
  );
}

function finding({ kind, severity, evidence, advice, pods }) {
  const tone = severity === "note" ? "note-finding" : severity;
  return el(
    "li",
    { class: tone },
    el("span", { class: `badge ${tone}` }, `${severity}: ${kind}`),
    el("p", {}, evidence),
    el("p", {}, el("strong", {}, "Do: "), advice),
    pods.length > 0 ? el("p", { class: "muted" }, `Pods: ${pods.join(", ")}`) : null,
  );
}

const FEW = 20;

/** Write the changes of the answer, the newest first. */
export function log(node, decisions) {
  if (decisions.length === 0) {
    node.replaceChildren(el("p", { class: "muted" }, "No answer has changed since the scaler began to keep them."));
    return;
  }
  let body = node.querySelector("tbody");
  if (body === null) {
    body = el("tbody");
    const heads = ["When", "Count", "Corridor", "Reason"].map((each) => el("th", { scope: "col" }, each));
    const table = el("table", { class: "log" }, el("thead", {}, el("tr", {}, ...heads)), body);
    const more = el("button", { type: "button", onclick: () => unfold(node) });
    node.replaceChildren(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Changes of the answer" }, table), more);
  }
  node.decisions = decisions;
  fill(node, body);
}

function unfold(node) {
  node.unfolded = true;
  fill(node, node.querySelector("tbody"));
}

function fill(node, body) {
  const { decisions, unfolded } = node;
  const shown = unfolded ? decisions : decisions.slice(0, FEW);
  const make = () => el("tr", {}, el("td", { class: "number" }), el("td", { class: "number" }), el("td", { class: "number" }), el("td", {}, el("strong"), " ", el("span")));
  keyed(body, shown, ({ at, reason }) => `${at} ${reason}`, make, updateDecision);
  const more = node.querySelector("button");
  more.hidden = shown.length === decisions.length;
  say(more, `Show all ${decisions.length}`);
}

function updateDecision(row, { at, current, desired, floor, ceiling, reason, meaning, kept_by: keptBy }) {
  const [when, count, lines, because] = row.children;
  say(when, clock(at));
  say(count, desired === current ? replicas(current) : `${replicas(current)} → ${desired ?? "no answer"}`);
  say(lines, floor === null ? "?" : `${floor} to ${ceiling ?? "open"}`);
  say(because.children[0], reason);
  say(because.children[1], meaning + (keptBy === "file" ? " (from before the scaler's restart)" : ""));
}
