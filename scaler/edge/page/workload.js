// One workload: why it has the count that it has, its past, and what is wrong with it.

import { Chart, Moment } from "./chart.js";
import { History } from "./history.js";
import { el, say, show } from "./dom.js";
import { findings, log, reasons, why } from "./told.js";
import { get, pathOf, Refused } from "./server.js";
import { linkTo } from "./glance.js";
import { SIGNALS, clock, number, replicas, span, valueOf } from "./words.js";

const RANGES = [1, 6, 24];
const STATES = ["serving", "loading", "unseen", "stalled", "asleep", "overdue"];

/** The view of one workload. */
export class Workload {
  static hours = 6;

  constructor(root, place) {
    this.place = place;
    this.history = new History(place, Workload.hours);
    document.title = `${place.namespace}/${place.name} – vLLM scaler`;
    this.count = el("p", { class: "count-now" });
    this.because = el("div", { class: "because" });
    this.gone = el("p", { class: "note", role: "status" }, "Asking the scaler…");
    this.diagnosis = el("div", {});
    this.reasons = el("div", {});
    this.log = el("div", {});
    this.makeCharts();
    root.replaceChildren(
      el(
        "div",
        { class: "bar" },
        el("h1", {}, `${place.namespace}/${place.name}`),
        el("span", { class: "muted" }, `trigger ${place.trigger}`),
        el("a", { class: "button", href: "#/" }, "All workloads"),
        el("a", { class: "button", href: linkTo(place, true) }, "Tuning desk"),
      ),
      el("section", { class: "card now", "aria-label": "Now" }, this.count, this.because),
      el("section", { class: "card", "aria-labelledby": "h-diagnosis" }, el("h2", { id: "h-diagnosis" }, "Diagnosis"), this.diagnosis),
      this.past(),
      el("section", { class: "card", "aria-labelledby": "h-why" }, el("h2", { id: "h-why" }, "Why, in detail"), this.reasons),
      el("section", { class: "card", "aria-labelledby": "h-log" }, el("h2", { id: "h-log" }, "Decision log"), this.log),
    );
  }

  makeCharts() {
    const onMoment = (index) => this.moment.set(index);
    const make = (title, write, more = {}) => new Chart({ title, write, onMoment, ...more });
    this.corridor = make("Corridor and count (replicas)", number, { height: 190, whole: true });
    this.signals = {
      waiting: make("Waiting requests per replica", number),
      ttft: make("Time to first token p95", span),
      kvCache: make("KV cache in use", (value) => valueOf("kvCache", value)),
      tpot: make("Time per output token p95 (moves nothing)", span),
    };
    this.states = make("Replica states", number, { whole: true });
    this.charts = [this.corridor, ...Object.values(this.signals), this.states];
    this.moment = new Moment(this.charts, (index) => this.told(index));
  }

  past() {
    this.ranges = RANGES.map((hours) =>
      el("button", { type: "button", onclick: () => this.choose(hours) }, `${hours} h`),
    );
    this.pressed();
    this.drawn = el(
      "div",
      {},
      this.moment.node,
      this.corridor.node,
      el("div", { class: "charts" }, ...Object.values(this.signals).map(({ node }) => node)),
      this.states.node,
    );
    show(this.drawn, false);
    const bar = el(
      "div",
      { class: "bar" },
      el("h2", { id: "h-past" }, "The past"),
      el("div", { class: "ranges", role: "group", "aria-label": "How far back" }, ...this.ranges),
    );
    return el("section", { class: "card", "aria-labelledby": "h-past" }, bar, this.gone, this.drawn);
  }

  pressed() {
    this.ranges.forEach((button, index) =>
      button.setAttribute("aria-pressed", String(RANGES[index] === Workload.hours)),
    );
  }

  async choose(hours) {
    Workload.hours = hours;
    this.pressed();
    this.history = new History(this.place, hours);
    await this.onChange?.();
  }

  close() {
    for (const chart of this.charts) chart.close();
  }

  /** Ask anew. Raises what `get` raises for the explanation; a part that fails says so itself. */
  async refresh(signal) {
    const explained = (await get(pathOf(this.place), signal)).triggers[0];
    this.drawNow(explained);
    await Promise.all([
      this.part(this.diagnosis, async () => {
        const found = await get(pathOf(this.place, "/diagnosis"), signal);
        findings(this.diagnosis, found.triggers[0]);
      }),
      this.part(this.log, async () => {
        const { decisions } = await get(pathOf(this.place, "/decisions", { limit: 200 }), signal);
        log(this.log, decisions);
      }),
      this.part(this.gone, async () => {
        const history = this.history;
        await history.refresh(explained.at, signal);
        if (history === this.history) this.drawPast();
      }),
    ]);
  }

  async part(node, work) {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 401) throw error;
      show(node, true);
      node.replaceChildren(`Not available: ${error.message}`);
    }
  }

  drawNow(explained) {
    const { current, desired, advised, mode } = explained;
    const wanted = mode === "advise" ? advised : desired;
    const arrow = wanted === current ? "" : ` → ${wanted ?? "no answer"}`;
    say(this.count, `${replicas(current)}${arrow}`);
    why(this.because, explained);
    reasons(this.reasons, explained);
  }

  drawPast() {
    const { history } = this;
    show(this.drawn, !history.empty);
    show(this.gone, history.empty);
    if (history.empty) {
      this.gone.replaceChildren("Nothing is recorded yet; the first moment comes with the next tick.");
      return;
    }
    const basis = { at: history.columns.at, from: history.from, to: history.to };
    this.drawCorridor(basis);
    this.drawSignals(basis);
    this.drawStates(basis);
    this.moment.take(basis.at);
  }

  drawCorridor(basis) {
    const column = (name) => this.history.column(name);
    const [low, high] = [column("floor"), column("ceiling")];
    this.corridor.draw({
      ...basis,
      summary: `The count is ${replicas(column("current").at(-1))}, the floor ${replicas(low.at(-1))}, the ceiling ${high.at(-1) ?? "open"}.`,
      bands: [{ label: "corridor", kind: "corridor", low, high }],
      lines: [
        { label: "floor", kind: "floor", values: low, stepped: true },
        { label: "ceiling", kind: "ceiling", values: high, stepped: true },
        { label: "asked for", kind: "desired", values: column("desired"), stepped: true },
        { label: "count", kind: "current", values: column("current"), stepped: true },
      ],
    });
  }

  drawSignals(basis) {
    const { history } = this;
    const policy = history.policy ?? {};
    show(this.signals.tpot.node, history.knows("tpot_p95"));
    const values = {
      waiting: history.waitingPerReplica,
      ttft: history.column("ttft_p95"),
      kvCache: history.column("kv_cache"),
      tpot: history.column("tpot_p95"),
    };
    for (const [signal, chart] of Object.entries(this.signals)) {
      const last = valueOf(signal, values[signal].at(-1));
      const keys = SIGNALS[signal]?.keys;
      const limits = keys
        ? ["high", "low"].map((side) => ({
            label: `${side === "high" ? "High" : "Low"} ${valueOf(signal, policy[`${keys}_${side}`])}`,
            kind: side,
            value: policy[`${keys}_${side}`],
          }))
        : [];
      chart.draw({
        ...basis,
        summary: `It is ${last}.${limits.map(({ label }) => ` ${label}.`).join("")}`,
        limits: limits.filter(({ value }) => Number.isFinite(value)),
        lines: [{ label: signal === "tpot" ? "" : "measured", kind: "signal", values: values[signal] }],
      });
    }
  }

  drawStates(basis) {
    const seen = STATES.filter((state) => this.history.column(state).some((count) => count > 0));
    let below = basis.at.map(() => 0);
    const bands = seen.map((state) => {
      const low = below;
      const counts = this.history.column(state);
      below = low.map((base, index) => base + (counts[index] ?? 0));
      const unheard = this.history.column("serving");
      return {
        label: state,
        kind: state,
        low: low.map((value, index) => (unheard[index] === null ? null : value)),
        high: below,
      };
    });
    const now = seen.map((state) => `${this.history.column(state).at(-1) ?? "?"} ${state}`);
    this.states.draw({ ...basis, summary: `Now ${now.join(", ") || "none"}.`, bands, lines: [] });
  }

  /** Say what was at a moment, in one line. */
  told(index) {
    const { history } = this;
    const at = (name) => history.column(name)[index];
    const count = at("desired") === at("current") ? replicas(at("current")) : `${replicas(at("current"))} → ${replicas(at("desired"))}`;
    return [
      `${clock(history.columns.at[index])}`,
      `${count} replicas, corridor ${replicas(at("floor"))} to ${at("ceiling") ?? "open"}`,
      `${at("reason") ?? "?"}`,
      `waiting ${valueOf("waiting", history.waitingPerReplica[index])}`,
      `TTFT ${valueOf("ttft", at("ttft_p95"))}`,
      `KV cache ${valueOf("kvCache", at("kv_cache"))}`,
      at("tpot_p95") === null ? null : `TPOT ${valueOf("tpot", at("tpot_p95"))}`,
    ]
      .filter((part) => part !== null)
      .join(" · ");
  }
}
