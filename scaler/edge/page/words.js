// How numbers, times and the scaler's own words are written.

export const SIGNALS = {
  waiting: { name: "Waiting per replica", keys: "waiting" },
  ttft: { name: "TTFT p95", keys: "ttft_p95" },
  kvCache: { name: "KV cache", keys: "kv_cache" },
};

export const STANDINGS = [
  { key: "critical", mark: "✕", word: "Critical", about: "no answer, or replicas are lost" },
  { key: "warning", mark: "!", word: "Warning", about: "requests suffer, or something is unknown" },
  { key: "moving", mark: "→", word: "Moving", about: "the count is about to change" },
  { key: "pending", mark: "…", word: "Pending", about: "a window is filling" },
  { key: "steady", mark: "✓", word: "Steady", about: "nothing to do" },
];

/** Return how urgent a standing is: the lower, the more. */
export function urgency(standing) {
  const place = STANDINGS.findIndex((each) => each.key === standing);
  return place < 0 ? STANDINGS.length : place;
}

/** Write a number with three digits that count; what is not known is a question mark. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "?";
  if (Math.abs(value) >= 100) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** Write a share as per cent. */
export function percent(value) {
  return value === null || value === undefined ? "?" : `${Math.round(value * 100)} %`;
}

/** Write a span of time in seconds as a person would. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  if (seconds < 1 && seconds > 0) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${number(seconds / 60)} min`;
  return `${number(seconds / 3600)} h`;
}

/** Write a signal's value. */
export function valueOf(signal, value) {
  if (value === null || value === undefined) return "not known";
  if (signal === "ttft" || signal === "tpot") return span(value);
  return signal === "kvCache" ? percent(value) : number(value);
}

/** Write replicas. */
export function replicas(count) {
  return count === null || count === undefined ? "?" : String(count);
}

const DAY = 86400;

/** Write an instant in the browser's time zone; with the day where it is not today. */
export function clock(at) {
  if (!at) return "never";
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB");
  const near = Math.abs(Date.now() / 1000 - at) < DAY / 2;
  return near ? time : `${date.toLocaleDateString("en-CA")} ${time}`;
}

/** Write the hour and minute of an instant, for an axis. */
export function hour(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** Name the time zone that all times are in. */
export function zone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const minutes = -new Date().getTimezoneOffset();
  const sign = minutes < 0 ? "−" : "+";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const shift = `${sign}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
  return `Times are ${timeZone} (UTC${shift}).`;
}

/** Say where the signal that stands highest is between its thresholds. */
export function nearestOf(nearest) {
  if (nearest === null) return "no signal known";
  const name = SIGNALS[nearest.signal]?.name ?? nearest.signal;
  const value = valueOf(nearest.signal, nearest.value);
  const side = nearest.side === "out" ? "High" : "Low";
  return `${name} ${value}, ${side} is ${valueOf(nearest.signal, nearest.threshold)}`;
}
