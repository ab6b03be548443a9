// The tuning desk: other thresholds put to the recorded past, redrawn under the hand.

import { Chart, Moment } from "./chart.js";
import { el, say, show } from "./dom.js";
import { figures } from "./figures.js";
import { get, pathOf, Refused } from "./server.js";
import { linkTo } from "./glance.js";
import { KNOBS, Knob } from "./knobs.js";
import { clock, number, replicas } from "./words.js";

const RANGES = [6, 24];

/** The desk of one workload. It asks once, and then whenever a slider moves. */
export class Desk {
  static hours = 24;

  constructor(root, place) {
    this.place = place;
    this.knobs = [];
    this.asked = 0;
    document.title = `Tuning desk ${place.namespace}/${place.name} – vLLM scaler`;
    this.note = el("p", { class: "note", role: "status" }, "Rehearsing the past…");
    this.faults = el("div", { role: "alert" });
    this.sliders = el("div", { class: "knobs" });
    this.chart = new Chart({
      title: "Corridor and count, rehearsed (replicas)",
      write: number,
      height: 240,
      whole: true,
      onMoment: (index) => this.moment.set(index),
    });
    this.moment = new Moment([this.chart], (index) => this.told(index));
    this.figures = el("div");
    this.caveat = el("p", { class: "muted" });
    this.snippet = el("textarea", { readonly: true, rows: 10, spellcheck: "false", "aria-labelledby": "h-snippet" });
    this.copied = el("span", { role: "status", class: "muted" });
    this.drawn = el("div", {}, ...this.parts());
    show(this.drawn, false);
    root.replaceChildren(
      el(
        "div",
        { class: "bar" },
        el("h1", {}, `Tuning desk: ${place.namespace}/${place.name}`),
        el("a", { class: "button", href: linkTo(place) }, "Back to the workload"),
      ),
      this.note,
      this.drawn,
    );
  }

  parts() {
    this.ranges = RANGES.map((hours) =>
      el("button", { type: "button", onclick: () => this.choose(hours) }, `${hours} h`),
    );
    this.pressed();
    const reset = el("button", { type: "button", onclick: () => this.reset() }, "Reset all");
    const copy = el("button", { type: "button", onclick: () => this.copy() }, "Copy");
    return [
      el(
        "section",
        { class: "card", "aria-labelledby": "h-knobs" },
        el("div", { class: "bar" }, el("h2", { id: "h-knobs" }, "Thresholds and windows"), reset),
        this.sliders,
        this.faults,
      ),
      el(
        "section",
        { class: "card", "aria-labelledby": "h-outcome" },
        el(
          "div",
          { class: "bar" },
          el("h2", { id: "h-outcome" }, "What it would have done"),
          el("div", { class: "ranges", role: "group", "aria-label": "How far back" }, ...this.ranges),
        ),
        this.chart.node,
        this.moment.node,
        this.figures,
        this.caveat,
      ),
      el(
        "section",
        { class: "card", "aria-labelledby": "h-snippet" },
        el("div", { class: "bar" }, el("h2", { id: "h-snippet" }, "For the ScaledObject"), this.copied, copy),
        this.snippet,
      ),
    ];
  }

  pressed() {
    this.ranges.forEach((button, index) =>
      button.setAttribute("aria-pressed", String(RANGES[index] === Desk.hours)),
    );
  }

  async choose(hours) {
    Desk.hours = hours;
    this.pressed();
    this.changed();
  }

  reset() {
    for (const knob of this.knobs) knob.reset();
    this.changed();
  }

  close() {
    this.closed = true;
    this.stop?.abort();
    this.chart.close();
  }

  /** Rehearse for the first time; news of the board do not move what somebody is looking at. */
  async refresh(signal) {
    if (this.answer) return;
    await this.ask(signal);
  }

  /** Rehearse what the sliders say now; while one answer is awaited only the newest is kept. */
  async changed() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.stop = new AbortController();
    try {
      do {
        this.again = false;
        await this.ask(this.stop.signal);
      } while (this.again && !this.closed);
    } catch (error) {
      if (!this.closed) this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  failed(error) {
    const told = error instanceof Refused ? error.message : "the scaler does not answer";
    show(this.note, true);
    say(this.note, `Not available: ${told}`);
  }

  async ask(signal) {
    const changes = this.knobs.filter((knob) => knob.changed).map((knob) => [knob.knob.key, knob.text]);
    const query = { hours: Desk.hours, ...Object.fromEntries(changes) };
    const started = performance.now();
    try {
      const answer = await get(pathOf(this.place, "/rehearsal", query), signal);
      this.take(answer);
      if (answer.faults.length === 0) {
        const took = performance.now() - started;
        say(this.note, `Rehearsed ${Desk.hours} h in ${answer.took_ms} ms; shown after ${Math.round(took)} ms.`);
      }
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 401) throw error;
      this.failed(error);
    }
  }

  take(answer) {
    if (this.knobs.length === 0) this.makeKnobs(answer.present);
    show(this.drawn, true);
    this.drawFaults(answer.faults);
    if (answer.faults.length > 0) {
      say(this.note, "Not rehearsed: see what is marked.");
      return;
    }
    this.answer = answer;
    this.draw(answer);
    figures(this.figures, answer);
    say(this.caveat, answer.caveat);
    if (this.snippet.value !== answer.snippet) this.snippet.value = answer.snippet;
    this.snippet.rows = answer.snippet.split("\n").length;
  }

  makeKnobs(present) {
    this.knobs = KNOBS.filter(({ key }) => Number.isFinite(present[key])).map(
      (knob) => new Knob(knob, present[knob.key], () => this.changed()),
    );
    this.sliders.replaceChildren(...this.knobs.map(({ node }) => node));
  }

  drawFaults(faults) {
    const told = faults.map(({ key, problem, cure }) => el("p", { class: "trouble" }, `${key} ${problem} (${cure})`));
    this.faults.replaceChildren(...told);
    for (const { knob, slider } of this.knobs) {
      const faulty = faults.some(({ key }) => key.includes(knob.key));
      if (faulty) slider.setAttribute("aria-invalid", "true");
      else slider.removeAttribute("aria-invalid");
    }
  }

  draw({ columns, before, after }) {
    const { at, current, floor, ceiling, followed, followed_before: was } = columns;
    this.chart.draw({
      at,
      from: at[0] ?? 0,
      to: at.at(-1) ?? 1,
      summary: `${number(after.replica_hours)} replica-hours, before ${number(before.replica_hours)}.`,
      bands: [{ label: "corridor", kind: "corridor", low: floor, high: ceiling }],
      lines: [
        { label: "floor", kind: "floor", values: floor, stepped: true },
        { label: "ceiling", kind: "ceiling", values: ceiling, stepped: true },
        { label: "recorded count", kind: "before", values: current, stepped: true },
        { label: "count with your settings", kind: "desired", values: was, stepped: true },
        { label: "count with these", kind: "current", values: followed, stepped: true },
      ],
    });
    this.moment.take(at);
  }

  told(index) {
    const { columns } = this.answer;
    const at = (name) => columns[name][index];
    return [
      clock(at("at")),
      `recorded ${replicas(at("current"))}, your settings ${replicas(at("followed_before"))}, these ${replicas(at("followed"))}`,
      `corridor ${replicas(at("floor"))} to ${at("ceiling") ?? "open"}`,
      at("reason"),
    ].join(" · ");
  }

  /** Copy the snippet; where the browser forbids that on plain HTTP, leave it selected. */
  async copy() {
    this.snippet.select();
    try {
      await navigator.clipboard.writeText(this.snippet.value);
      say(this.copied, "Copied");
    } catch {
      say(this.copied, document.execCommand("copy") ? "Copied" : "Selected: copy it with Ctrl+C");
    } finally {
      setTimeout(() => say(this.copied, ""), 4000);
    }
  }
}
