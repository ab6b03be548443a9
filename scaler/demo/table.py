"""The demo's table: plain lines that read well in a terminal and in a log."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scaler.control.board import Posting
from scaler.core.units import Seconds
from scaler.demo.load import Load, Phase
from scaler.demo.scene import Scene

_MINUTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a tick showed. `since` is the tick, from the load's start; `rate` requests per second.

    `phase` counts on through all cycles. `current` and `loading` are the fleet's own; `trouble` is
    why KEDA's stand-in got no number the last time it asked. `posting` is `None` before the first
    decision.
    """

    since: Seconds
    phase: int
    name: str
    rate: float | None
    current: int
    loading: int
    posting: Posting | None
    trouble: str | None = None


HEADER = (
    "   time  phase      req/s  waiting  TTFT p95    KV  floor-ceiling  replicas  loading  reason"
)


def legend(scene: Scene, load: Load, *, speed: float, http: str, grpc: str, targets: str) -> str:
    """Say what is about to happen and where to look at it."""
    minutes = load.cycle / _MINUTE
    workload = f"{scene.namespace}/{scene.name}"
    return f"""\
A fleet of emulated vLLM engines ({workload}, {scene.replicas} replicas at first, at most \
{scene.max_replicas}) gets a scripted load. The scaler
scrapes the engines; a stand-in for KEDA and the HPA asks it over gRPC and sets the fleet's size.
Only the clock is sped up, {speed:g} times: the policy and its windows are the defaults, and a new
replica takes {scene.start_up:g} s to load. A cycle is {minutes:g} minutes, here \
{load.cycle / speed:.0f} s. Ctrl-C ends it.

  in a browser     {http}/
  why this count   scaler explain {workload} --server {http}
  as JSON          {http}/api/v1/workloads/{workload}
  metrics          {http}/metrics
  KEDA's side      {grpc} (gRPC, with reflection)
  engines' pages   the addresses in {targets}

Below the floor the fleet grows, above the ceiling it shrinks, between them it stays.
"?" is what nobody knows yet; a ceiling that is not known gives no replica up."""


def heading(phase: Phase) -> str:
    """Name a phase that begins."""
    return f"--- {phase.name}: {phase.about}"


def text_of(line: Line) -> str:
    """Write a line of the table."""
    decision = line.posting.decision if line.posting is not None else None
    sample = decision.sample if decision is not None else None
    waiting = ttft = kv = "?"
    if sample is not None:
        waiting = f"{sample.waiting:.0f}"
        ttft = f"{sample.ttft.value:.1f} s" if sample.ttft is not None else "?"
        kv = f"{sample.kv_cache:.0%}" if sample.kv_cache is not None else "?"
    rate = "?" if line.rate is None else f"{line.rate:.1f}"
    return (
        f"{_clock(line.since):>7}  {line.name:<9}  {rate:>5}  {waiting:>7}  {ttft:>8}  {kv:>4}  "
        f"{_corridor(line.posting):^13}  {_replicas(line):^8}  {line.loading or '-':>7}  "
        f"{_reason(line)}"
    ).rstrip()


def _clock(since: Seconds) -> str:
    sign, whole = ("-", round(-since)) if since < 0 else ("", round(since))
    return f"{sign}{whole // _MINUTE}:{whole % _MINUTE:02}"


def _corridor(posting: Posting | None) -> str:
    decision = posting.decision if posting is not None else None
    if decision is None or decision.corridor is None:
        return "?"
    proven = math.isfinite(decision.corridor.ceiling)
    return f"{decision.floor}-{decision.ceiling if proven else '?'}"


def _replicas(line: Line) -> str:
    decision = line.posting.decision if line.posting is not None else None
    if decision is None or decision.current is None:
        return str(line.current)
    if decision.desired is None or decision.desired == decision.current:
        return str(decision.current)
    return f"{decision.current} -> {decision.desired}"


def _reason(line: Line) -> str:
    if line.posting is None:
        words = "no decision yet"
    else:
        decision = line.posting.decision
        words = decision.reason.value
        if decision.notes:
            words += f" ({', '.join(note.value for note in decision.notes)})"
        if line.posting.trouble:
            words += f"; source: {line.posting.trouble}"
    return f"{words}; KEDA got no number: {line.trouble}" if line.trouble else words
