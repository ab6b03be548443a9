// A workload's recorded past, in columns; what is new is asked for and appended.

import { get, pathOf } from "./server.js";

const MOST = 10_000;
const LEAST = 600; // seconds that a chart shows at least

/** The past of one workload over the last `hours`. */
export class History {
  constructor(place, hours) {
    this.place = place;
    this.hours = hours;
    this.policy = null;
    this.columns = { at: [] };
    this.resolution = [];
  }

  get empty() {
    return this.columns.at.length === 0;
  }

  /** Ask for what is not known yet, up to the board's `now`. Raises what `get` raises. */
  async refresh(now, signal) {
    const start = Math.max(0, now - this.hours * 3600);
    const last = this.columns.at.at(-1);
    const from = last === undefined || last < start || last > now ? start : last + 1;
    const asked = { from: Math.floor(from), to: Math.ceil(now), limit: MOST };
    const found = await get(pathOf(this.place, "/history", asked), signal);
    this.policy = found.policy;
    this.resolution = found.resolution;
    this.columns = from === start ? found.columns : joined(this.columns, found.columns, start);
    // A young past is not squeezed against the edge of a day that nobody has seen.
    const first = this.columns.at[0] ?? start;
    this.from = Math.max(start, Math.min(first, now - LEAST));
    this.to = Math.max(now, this.from + 1);
  }

  /** Return a column; one that the scaler does not have is not known at any moment. */
  column(name) {
    return column(this.columns, name);
  }

  /** Say whether anything of a column is known. */
  knows(name) {
    return this.column(name).some((value) => value !== null);
  }

  /** Return waiting requests per serving replica, as the thresholds are meant. */
  get waitingPerReplica() {
    const serving = this.column("serving");
    return this.column("waiting").map((waiting, index) =>
      waiting === null || !serving[index] ? null : waiting / serving[index],
    );
  }
}

/** Append columns to columns; one that either lacks is not known there. */
function joined(before, after, start) {
  const first = before.at.findIndex((at) => at >= start);
  const kept = first < 0 ? before.at.length : first;
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return Object.fromEntries(
    [...names].map((name) => [
      name,
      [...column(before, name).slice(kept), ...column(after, name)],
    ]),
  );
}

function column(columns, name) {
  return columns[name] ?? columns.at.map(() => null);
}
