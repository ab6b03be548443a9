// A small bar: where a value stands between Low and High.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 14;
const LOW_AT = 0.3;
const HIGH_AT = 0.75;

/** Place a value: Low and High are always at the same spots, so that bars can be compared. */
export function placed({ value, low, high }) {
  const [edge, share] =
    value <= low
      ? [0, low > 0 ? (value / low) * LOW_AT : LOW_AT]
      : value <= high
        ? [LOW_AT, ((value - low) / (high - low)) * (HIGH_AT - LOW_AT)]
        : [HIGH_AT, Math.min(1, (value - high) / high) * (1 - HIGH_AT)];
  return Math.max(0, Math.min(1, edge + share));
}

/** Draw the bar; what it shows is also said in words beside it. */
export function gauge(nearest) {
  const at = placed(nearest) * WIDTH;
  const zone = nearest.value >= nearest.high ? "over" : nearest.value <= nearest.low ? "calm" : "mid";
  return svg(
    "svg",
    {
      class: "gauge",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "xMinYMid",
      "aria-hidden": "true",
      focusable: "false",
    },
    svg("rect", { class: "track", x: 0, y: 4, width: WIDTH, height: 6, rx: 3 }),
    svg("rect", { class: `fill ${zone}`, x: 0, y: 4, width: Math.max(3, at), height: 6, rx: 3 }),
    ...[LOW_AT, HIGH_AT].map((edge) =>
      svg("line", { class: "tick", x1: edge * WIDTH, x2: edge * WIDTH, y1: 0, y2: HEIGHT }),
    ),
  );
}
