// Charts over time, drawn as SVG: lines, steps, thresholds, and the corridor as a band.

import { el, svg, say } from "./dom.js";
import { hour } from "./words.js";

const LEFT = 46;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 22;
const GAP = 150; // seconds without a moment: a line does not pretend to know what lies between
const SPANS = [60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** Return round steps from 0 up to at least `most`; whole ones where only such exist. */
export function rounds(most, whole = false, count = 4) {
  const rough = Math.max(most / count, whole ? 1 : 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, whole && rough < 10 ? 2 : 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** Split a series into runs of neighbouring indices with values. */
function* runs(at, isKnown) {
  let run = [];
  for (let index = 0; index < at.length; index++) {
    const gap = run.length > 0 && at[index] - at[index - 1] > GAP;
    if (run.length > 0 && (gap || !isKnown(index))) {
      yield run;
      run = [];
    }
    if (isKnown(index)) run.push(index);
  }
  if (run.length > 0) yield run;
}

const spot = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** Write a path through a run: straight lines, or steps that hold a value until the next. */
function through(run, x, y, stepped) {
  let path = "";
  let before = null;
  for (const index of run) {
    const [here, height] = [x(index), y(index)];
    if (before === null) path += `M${spot(here, height)}`;
    else if (!stepped) path += `L${spot(here, height)}`;
    else if (height !== before) path += `H${here.toFixed(1)}V${height.toFixed(1)}`;
    before = height;
  }
  const last = run.at(-1);
  // A moment that stands alone would be no line at all.
  return path + (run.length === 1 ? "h1.5" : stepped ? `H${x(last).toFixed(1)}` : "");
}

/** Write the outline of the area between two edges over a run. */
function between(run, x, top, bottom) {
  const there = through(run, x, top, true).replace("h1.5", "");
  let back = "";
  for (let place = run.length - 1; place >= 0; place--) {
    const index = run[place];
    back += `L${spot(x(index), bottom(index))}`;
    if (place > 0) back += `L${spot(x(index), bottom(run[place - 1]))}`;
  }
  return `${there}${back}Z`;
}

/**
 * One chart. `onMoment` is called with the index that the reader points at.
 * `lines` are {label, kind, values, stepped}, `limits` {label, kind, value}, `bands`
 * {label, kind, low, high} with `high` unknown where nothing limits it.
 */
export class Chart {
  constructor({ title, write, height = 150, whole = false, onMoment = () => {} }) {
    this.whole = whole;
    this.write = write;
    this.height = height;
    this.onMoment = onMoment;
    this.legend = el("ul", { class: "legend" });
    this.plot = svg("svg", { class: "plot", role: "img", height });
    this.heading = el("h3", {}, title);
    this.node = el("figure", { class: "chart" }, this.heading, this.legend, this.plot);
    this.title = title;
    this.plot.addEventListener("pointermove", (event) => this.pointed(event));
    this.plot.addEventListener("pointerdown", (event) => this.pointed(event));
    this.observer = new ResizeObserver(() => this.data && this.draw(this.data));
    this.observer.observe(this.plot);
  }

  close() {
    this.observer.disconnect();
  }

  pointed(event) {
    const { at } = this.data ?? { at: [] };
    if (at.length === 0) return;
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    const time = this.data.from + ((x - LEFT) / this.inner) * (this.data.to - this.data.from);
    this.onMoment(nearestIndex(at, time));
  }

  /** Draw anew; `summary` says in words what a reader who does not see it should know. */
  draw(data) {
    this.data = data;
    const width = Math.max(120, this.plot.clientWidth || 600);
    this.inner = width - LEFT - RIGHT;
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.setAttribute("aria-label", `${this.title}. ${data.summary}`);
    const ticks = rounds(this.most(data), this.whole);
    const top = ticks.at(-1) || 1;
    const depth = this.height - TOP - BOTTOM;
    this.y = (value) => TOP + depth * (1 - Math.min(value, top) / top);
    this.x = (time) => LEFT + (this.inner * (time - data.from)) / (data.to - data.from || 1);
    this.cursor = svg("line", { class: "cursor", y1: TOP, y2: this.height - BOTTOM, hidden: true });
    this.plot.replaceChildren(
      ...this.axes(ticks, width),
      ...(data.bands ?? []).flatMap((band) => this.band(band)),
      ...(data.limits ?? []).map((limit) => this.limit(limit, width)),
      ...data.lines.flatMap((line) => this.line(line)),
      this.cursor,
    );
    this.explain(data);
    if (data.moment !== undefined) this.point(data.moment);
  }

  most({ lines, limits = [], bands = [] }) {
    let most = 0;
    const see = (value) => known(value) && value > most && (most = value);
    for (const { values } of lines) values.forEach(see);
    for (const { high, low } of bands) [high, low].forEach((edge) => edge.forEach(see));
    for (const { value } of limits) see(value);
    return (most || 1) * 1.08;
  }

  axes(ticks, width) {
    const across = ticks.flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: this.y(value), y2: this.y(value) }),
      svg("text", { class: "mark", x: LEFT - 6, y: this.y(value) + 4, "text-anchor": "end" }, this.write(value)),
    ]);
    const { from, to } = this.data;
    const step = SPANS.find((each) => ((to - from) / each) * 64 <= this.inner) ?? 86400;
    const shift = new Date(to * 1000).getTimezoneOffset() * 60;
    const along = [];
    for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
      const label = svg("text", { class: "mark", x: this.x(at), y: this.height - 6, "text-anchor": "middle" }, hour(at));
      if (this.x(at) > LEFT + 14 && this.x(at) < width - 18) along.push(label);
    }
    return [...across, ...along];
  }

  band({ kind, low, high }) {
    const { at } = this.data;
    const x = (index) => this.x(at[index]);
    const bottom = (index) => this.y(low[index]);
    const top = (index) => (known(high[index]) ? this.y(high[index]) : TOP);
    return [...runs(at, (index) => known(low[index]))].map((run) =>
      svg("path", { class: `area ${kind}`, d: between(run, x, top, bottom) }),
    );
  }

  line({ kind, values, stepped = false }) {
    const { at } = this.data;
    const x = (index) => this.x(at[index]);
    const y = (index) => this.y(values[index]);
    return [...runs(at, (index) => known(values[index]))].map((run) =>
      svg("path", { class: `line ${kind}`, d: through(run, x, y, stepped) }),
    );
  }

  limit({ kind, value }, width) {
    const y = this.y(value);
    return svg("line", { class: `line limit ${kind}`, x1: LEFT, x2: width - RIGHT, y1: y, y2: y });
  }

  explain({ lines, limits = [], bands = [] }) {
    const entries = [...lines, ...bands, ...limits].filter(({ label }) => label);
    const told = entries.map(({ label, kind }) => `${kind}:${label}`).join("|");
    if (this.told === told) return;
    this.told = told;
    this.legend.replaceChildren(
      ...entries.map(({ label, kind, low }) => {
        const mark = low
          ? svg("rect", { class: `area ${kind}`, width: 18, height: 10 })
          : svg("line", { class: `line ${kind}`, x1: 0, x2: 18, y1: 5, y2: 5 });
        const drawn = svg("svg", { class: "swatch", viewBox: "0 0 18 10", "aria-hidden": "true" }, mark);
        return el("li", {}, drawn, ` ${label}`);
      }),
    );
  }

  /** Show a moment by a line through it. */
  point(index) {
    if (!this.cursor || index === null || index >= this.data.at.length) return;
    this.data.moment = index;
    const x = this.x(this.data.at[index]);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.cursor.removeAttribute("hidden");
  }
}

/** Return the index of the moment that is nearest to a time. */
export function nearestIndex(at, time) {
  let [low, high] = [0, at.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - at[low - 1] < at[low] - time ? low - 1 : low;
}

/** The slider that moves the line through all charts, for those without a pointer. */
export class Moment {
  constructor(charts, tell) {
    this.charts = charts;
    this.tell = tell;
    this.at = [];
    this.index = null;
    this.slider = el("input", { type: "range", id: "moment", min: 0, max: 0, step: 1, oninput: () => this.set(Number(this.slider.value)) });
    this.told = el("output", { for: "moment", class: "told" });
    this.node = el("div", { class: "moment" }, el("label", { for: "moment" }, "Moment"), this.slider, this.told);
  }

  /** Take new moments; a reader at the newest one stays at the newest. */
  take(at) {
    const time = this.at[this.index];
    const last = this.index === null || this.index >= this.at.length - 1;
    this.at = at;
    this.slider.max = Math.max(0, at.length - 1);
    if (at.length > 0) this.set(last ? at.length - 1 : nearestIndex(at, time));
  }

  set(index) {
    this.index = index;
    this.slider.value = index;
    const told = this.tell(index);
    this.slider.setAttribute("aria-valuetext", told);
    say(this.told, told);
    for (const chart of this.charts) chart.point(index);
  }
}
