// All workloads at a glance, the most urgent first.

import { el, keyed, say, show } from "./dom.js";
import { get } from "./server.js";
import { STANDINGS, nearestOf, replicas, urgency } from "./words.js";
import { gauge } from "./gauge.js";

const PAGE_SIZE = 1000;

/** Ask for every workload, page after page. */
async function everything(signal) {
  const found = [];
  let after = "";
  do {
    const query = new URLSearchParams({ limit: PAGE_SIZE, after });
    const page = await get(`api/v1/workloads?${query}`, signal);
    found.push(...page.workloads);
    after = page.next;
  } while (after !== null);
  return found;
}

const keyOf = (each) => `${each.namespace}/${each.name}/${each.trigger}`;

/** Return where a workload's own view is. */
export function linkTo({ namespace, name, trigger }, desk = false) {
  const place = [namespace, name, trigger].map(encodeURIComponent).join("/");
  return `#/${place}${desk ? "/desk" : ""}`;
}

/** The list; `filter` survives going to a workload and back. */
export class Glance {
  static filter = "";

  constructor(root) {
    document.title = "Workloads – vLLM scaler";
    this.workloads = null;
    this.filter = el("input", {
      type: "search",
      id: "filter",
      autocomplete: "off",
      placeholder: "namespace, name, state, reason",
      value: Glance.filter,
      oninput: () => {
        Glance.filter = this.filter.value;
        this.draw();
      },
    });
    this.counts = el("ul", { class: "counts", "aria-label": "States" });
    this.list = el("ul", { class: "list", id: "list" });
    this.note = el("p", { class: "note", role: "status" }, "Asking the scaler…");
    root.replaceChildren(
      el(
        "div",
        { class: "bar" },
        el("h1", {}, "Workloads"),
        el("label", { class: "field", for: "filter" }, "Filter", this.filter),
        el("kbd", { class: "hint", title: "Press / to filter" }, "/"),
      ),
      this.counts,
      this.note,
      this.list,
    );
  }

  /** Ask anew. Raises what `get` raises. */
  async refresh(signal) {
    this.workloads = await everything(signal);
    this.draw();
  }

  close() {}

  focusFilter() {
    this.filter.focus();
  }

  draw() {
    if (this.workloads === null) return;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const told = (each) =>
      [keyOf(each), each.standing, each.reason, each.mode, ...each.diagnosis].join(" ").toLowerCase();
    const chosen = this.workloads
      .filter((each) => words.every((word) => told(each).includes(word)))
      .sort((a, b) => urgency(a.standing) - urgency(b.standing) || keyOf(a).localeCompare(keyOf(b)));
    keyed(this.list, chosen, keyOf, makeRow, updateRow);
    this.drawCounts();
    say(this.note, this.told(chosen.length));
    show(this.note, this.note.textContent !== "");
  }

  drawCounts() {
    const counts = STANDINGS.map((each) => ({
      ...each,
      count: this.workloads.filter((workload) => workload.standing === each.key).length,
    })).filter((each) => each.count > 0);
    const make = (each) => el("li", { class: `count ${each.key}`, title: each.about });
    const update = (node, each) => say(node, `${each.mark} ${each.count} ${each.word.toLowerCase()}`);
    keyed(this.counts, counts, (each) => each.key, make, update);
  }

  told(shown) {
    const all = this.workloads.length;
    if (all === 0) {
      return (
        "No workloads yet. One appears when KEDA first asks for it: create a ScaledObject " +
        "whose trigger names this scaler, and see that KEDA is running."
      );
    }
    return shown < all ? `${shown} of ${all} workloads match.` : "";
  }
}

function makeRow(each) {
  return el(
    "li",
    { class: "row" },
    el("span", { class: "badge" }),
    el("a", { class: "name", href: linkTo(each) }),
    el("span", { class: "scale" }),
    el("span", { class: "why" }),
    el("span", { class: "near" }),
  );
}

function updateRow(row, each) {
  const [badge, name, scale, why, near] = row.children;
  const standing = STANDINGS[urgency(each.standing)];
  row.className = `row ${each.standing}`;
  badge.className = `badge ${each.standing}`;
  say(badge, `${standing.mark} ${standing.word}`);
  say(name, `${each.namespace}/${each.name}`);
  sayScale(scale, each);
  const advice = each.mode === "advise" ? "Advice only." : null;
  const troubles = [advice, each.meaning, each.trouble, each.fault].filter(Boolean).join(" ");
  const found = each.diagnosis.length ? ` Diagnosis: ${each.diagnosis.join(", ")}.` : "";
  say(why, troubles + found);
  drawNear(near, each.nearest);
}

/** Write current and desired count; a desired one that is not given is said so. */
function sayScale(node, each) {
  const wanted = each.mode === "advise" ? each.advised : each.desired;
  const verb = each.mode === "advise" ? "would ask for" : "asks for";
  const told = wanted === null ? "gives no answer" : `${verb} ${replicas(wanted)}`;
  node.setAttribute("title", `${replicas(each.current)} replicas; the scaler ${told}`);
  const same = wanted === each.current;
  say(node, same ? replicas(each.current) : `${replicas(each.current)} → ${wanted ?? "no answer"}`);
}

function drawNear(node, nearest) {
  const told = nearestOf(nearest);
  if (node.dataset.told === told) return;
  node.dataset.told = told;
  node.replaceChildren(...(nearest ? [gauge(nearest)] : []), el("span", {}, told));
}
