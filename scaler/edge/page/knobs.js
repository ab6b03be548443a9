// The sliders of the tuning desk: each walks over values that a person would write.

import { el, say } from "./dom.js";
import { number, percent, span } from "./words.js";

const between = (from, to, step) =>
  Array.from({ length: Math.round((to - from) / step) + 1 }, (_, index) =>
    Number((from + index * step).toFixed(4)),
  );

const WAITING = [0, 0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100];
const LATENCY = [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 20, 30, 60];
const OUT = [15, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600];
const IN = [60, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600];

const count = { show: number, text: String };
const latency = { show: span, text: (value) => `${value}s`, values: LATENCY };
const share = { show: percent, text: String };
const window = { show: span, text: (value) => `${value}s` };

/** Each knob by its metadata key: what it is called, its values, how they are shown and written. */
export const KNOBS = [
  { key: "waitingHigh", label: "Waiting, High", ...count, values: WAITING.filter((each) => each > 0) },
  { key: "waitingLow", label: "Waiting, Low", ...count, values: WAITING },
  { key: "ttftP95High", label: "TTFT p95, High", ...latency },
  { key: "ttftP95Low", label: "TTFT p95, Low", ...latency },
  { key: "kvCacheHigh", label: "KV cache, High", ...share, values: between(0.3, 0.99, 0.01) },
  { key: "kvCacheLow", label: "KV cache, Low", ...share, values: between(0.05, 0.95, 0.01) },
  { key: "scaleOutWindow", label: "Scale-out window", ...window, values: OUT },
  { key: "scaleInWindow", label: "Scale-in window", ...window, values: IN },
  { key: "headroom", label: "Headroom", ...share, values: between(0, 0.9, 0.05) },
];

/** One slider; it starts at the present value, which is always one of its steps. */
export class Knob {
  constructor(knob, present, onChange) {
    this.knob = knob;
    this.present = present;
    this.values = [...new Set([...knob.values, present])].sort((a, b) => a - b);
    const id = `knob-${knob.key}`;
    this.slider = el("input", {
      type: "range",
      id,
      min: 0,
      max: this.values.length - 1,
      step: 1,
      oninput: () => {
        this.tell();
        onChange();
      },
    });
    this.told = el("output", { for: id, class: "number" });
    this.node = el(
      "div",
      { class: "knob" },
      el("label", { for: id }, knob.label, " ", el("code", {}, knob.key)),
      this.told,
      this.slider,
    );
    this.reset();
  }

  get value() {
    return this.values[Number(this.slider.value)];
  }

  get changed() {
    return this.value !== this.present;
  }

  /** Return the value as it is written in a trigger. */
  get text() {
    return this.knob.text(this.value);
  }

  reset() {
    this.slider.value = this.values.indexOf(this.present);
    this.tell();
  }

  tell() {
    const value = this.knob.show(this.value);
    this.slider.setAttribute("aria-valuetext", value);
    const told = this.changed ? `${this.knob.show(this.present)} → ${value}` : value;
    say(this.told, told);
    this.node.classList.toggle("changed", this.changed);
  }
}
