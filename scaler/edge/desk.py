"""The tuning desk: what other thresholds would have made of a workload's recorded past."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from scaler.config.faults import ConfigurationError, Fault
from scaler.config.keys import BY_NAME, FROM_ENV
from scaler.config.trigger import Resolved
from scaler.control.board import Board
from scaler.control.registry import Entry, Registry
from scaler.core.policy import Policy
from scaler.core.rendering import Plain, to_plain
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey
from scaler.edge.errors import EdgeError
from scaler.edge.explained import chosen_keys
from scaler.edge.hours import Records, read_record
from scaler.tuning.comparison import CAVEAT, Outcome, outcome
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Record

MOST_HOURS = 24
_FRESH_FOR: Seconds = 300.0
_KEPT = 4
_MOST_WAITING = 8
_HOUR: Seconds = 3600.0

KNOBS = tuple(name for name, key in BY_NAME.items() if key.field in Policy.__dataclass_fields__)
"""The metadata keys that a rehearsal can change: those that say how to decide."""


class NothingRecorded(EdgeError):
    """There is no past to rehearse on; the message says why."""


class DeskBusy(EdgeError):
    """More people rehearse than one process answers."""


@dataclass(slots=True)
class _Bench:
    """A past, prepared, and what the present policy came to on it."""

    prepared: Prepared
    until: Seconds
    before: dict[Policy, Outcome] = field(default_factory=dict)

    def compare(self, before: Policy, after: Policy) -> tuple[Outcome, Outcome]:
        if before not in self.before:
            self.before = {before: outcome(self.prepared, before)}
        was = self.before[before]
        return was, was if after == before else outcome(self.prepared, after)


class Desk:
    """Rehearses, one at a time, in a thread of its own; keeps the last few pasts prepared."""

    def __init__(self, registry: Registry, board: Board, records: Records) -> None:
        """Rehearse what `records` keeps of the workloads in `registry`."""
        self._registry = registry
        self._board = board
        self._records = records
        self._benches: OrderedDict[tuple[WorkloadKey, int], _Bench] = OrderedDict()
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def rehearse(
        self, namespace: str, name: str, trigger: str | None, hours: int, keys: Mapping[str, str]
    ) -> Plain:
        """Answer what the trigger, with these keys changed, would have done; faults are listed.

        Raises NoSuchWorkload, NothingRecorded and DeskBusy.
        """
        started = time.perf_counter()
        snapshot = self._board.snapshot
        key = chosen_keys(self._registry, snapshot, namespace, name, trigger)[0]
        entry = self._registry.get(key)
        if entry is None or entry.resolved is None:
            raise NothingRecorded(
                f"{namespace}/{name} is not decided on at present, so there is nothing to rehearse"
            )
        metadata = _changed(entry, keys)
        told: dict[str, Plain] = {
            "metadata": {name: _shown(name, value) for name, value in metadata.items()},
            "given": [*keys],
            "present": _knobs(entry.resolved.policy),
            "caveat": CAVEAT,
        }
        try:
            resolved = self._resolved(entry, keys, metadata)
        except ConfigurationError as error:
            return {**told, "faults": [to_plain(fault) for fault in error.faults]}
        before, after = await self._compare(entry.resolved, resolved, key, snapshot.at, hours)
        return {
            **told,
            "faults": [],
            "values": _knobs(resolved.policy),
            "snippet": snippet(key, metadata),
            **_compared(before, after),
            "took_ms": round((time.perf_counter() - started) * 1000),
        }

    def _resolved(
        self, entry: Entry, keys: Mapping[str, str], metadata: Mapping[str, str]
    ) -> Resolved:
        unknown = [name for name in keys if name in BY_NAME and name not in KNOBS]
        if unknown:
            problem, cure = "is no knob of the desk", f"the knobs are {', '.join(KNOBS)}"
            faults = [Fault(key=name, problem=problem, cure=cure) for name in unknown]
            raise ConfigurationError("the rehearsal cannot be made", faults)
        return self._registry.resolved(entry.key.namespace, entry.key.name, metadata)

    async def _compare(
        self, present: Resolved, changed: Resolved, key: WorkloadKey, now: Seconds, hours: int
    ) -> tuple[Outcome, Outcome]:
        if self._waiting >= _MOST_WAITING:
            raise DeskBusy(f"{_MOST_WAITING} rehearsals are waiting already; try again")
        self._waiting += 1
        try:
            async with self._turn:
                bench = self._benches.get((key, hours))
                if bench is None or not 0 <= now - bench.until < _FRESH_FOR:
                    record = await self._record(present, key, now, hours)
                    bench = _Bench(await asyncio.to_thread(Prepared, record), now)
                    self._benches[key, hours] = bench
                self._benches.move_to_end((key, hours))
                while len(self._benches) > _KEPT:
                    self._benches.popitem(last=False)
                return await asyncio.to_thread(bench.compare, present.policy, changed.policy)
        finally:
            self._waiting -= 1

    async def _record(
        self, present: Resolved, key: WorkloadKey, now: Seconds, hours: int
    ) -> Record:
        """Return the past. Raises NothingRecorded."""
        asks = present.selection.activation_query is not None
        span = now - hours * _HOUR, now
        record = await read_record(self._records, key, span, asks_gateway=asks)
        if not record.moments:
            raise NothingRecorded(
                f"nothing is recorded of {key.namespace}/{key.name} yet; "
                "the first moment comes with the next tick"
            )
        return record


def snippet(key: WorkloadKey, metadata: Mapping[str, str]) -> str:
    """Write the metadata of a trigger, to be put in place of what is there."""
    lines = [
        f"# The trigger of {key.namespace}/{key.name}.",
        "# Keep scalerAddress, and whatever ends in FromEnv, as it is.",
        "metadata:",
    ]
    for name, value in metadata.items():
        if not name.endswith(FROM_ENV):
            lines.append(f"  {name}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _changed(entry: Entry, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the trigger's metadata with some keys given anew."""
    kept = {k: v for k, v in entry.trigger.given if k.removesuffix(FROM_ENV) not in keys}
    return {**kept, **keys}


def _shown(name: str, value: str) -> str | None:
    """Hide what came from an environment: it may be a secret."""
    return None if name.endswith(FROM_ENV) else value


def _knobs(policy: Policy) -> Plain:
    """Return the values of a policy under the names of the metadata keys; None: learned."""
    return {name: to_plain(getattr(policy, BY_NAME[name].field)) for name in KNOBS}


def _compared(before: Outcome, after: Outcome) -> dict[str, Plain]:
    columns = {each.name: to_plain(getattr(after.line, each.name)) for each in fields(after.line)}
    return {
        "columns": {**columns, "followed_before": to_plain(before.line.followed)},
        "before": to_plain(before.figures),
        "after": to_plain(after.figures),
        "recorded": to_plain(before.recorded),
        "seconds": after.seconds,
        "unseen": after.unseen,
        "unanswered": after.unanswered,
    }
