"""A made-up day of a fleet, answered as the scaler's own interface answers it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Page, Route

from scaler.core.policy import Policy
from scaler.core.reasons import EXPLANATIONS, Reason
from scaler.core.rendering import to_plain
from scaler.core.units import TICK, Seconds
from tests.edge.world import NOON

FINE_SINCE: Seconds = NOON - 7200
GAP = range(int(NOON) - 9000, int(NOON) - 8100)
Row = Mapping[str, float | str | None]


def day() -> list[Row]:
    """Return a day up to noon: minutes, then ticks, with a quarter of an hour unheard."""
    times = [*range(int(NOON) - 86_400, int(FINE_SINCE), 60)]
    times += [*range(int(FINE_SINCE), int(NOON) + 1, int(TICK))]
    return [_unheard(at) if at in GAP else _heard(at) for at in times]


def _heard(at: int) -> Row:
    load = 4 + 3 * math.sin(at / 5_000.0) + math.sin(at / 1_300.0)
    count = max(2, math.ceil(load))
    queue = 8.0 * (load % 1.0 > 0.9)
    return {
        "at": at,
        "current": count,
        "desired": count + (1 if queue else 0),
        "floor": max(1, math.floor(load)),
        "ceiling": None if queue else math.ceil(load) + 1,
        "need_low": load,
        "need_high": load + 1.5,
        "reason": Reason.SCALE_OUT_QUEUE if queue else Reason.STEADY,
        "serving": count - (1 if queue else 0),
        "loading": 1 if queue else 0,
        "unseen": 0,
        "stalled": 0,
        "asleep": 0,
        "overdue": 0,
        "waiting": queue * count + 1,
        "running": load * 40,
        "kv_cache": min(0.97, 0.3 + load / 14),
        "ttft_p95": 0.4 + queue / 3,
        "tpot_p95": 0.03 + load / 500,
        "token_rate": load * 900,
        "preemption_rate": 0.0,
    }


def _unheard(at: int) -> Row:
    silent: dict[str, float | str | None] = dict.fromkeys(_heard(at))
    return silent | {"at": at, "current": 4, "desired": 4, "reason": Reason.SOURCE_SILENT}


def history(rows: list[Row]) -> object:
    """Return rows as the answer to `/history`."""
    names = rows[0].keys() if rows else ()
    return {
        "namespace": "llm",
        "name": "chat",
        "trigger": "t",
        "policy": to_plain(Policy()),
        "resolution": [{"from": NOON - 86_400, "to": FINE_SINCE, "step": 60}],
        "columns": {"at": [], **{name: [row[name] for row in rows] for name in names}},
    }


def decisions(rows: list[Row]) -> object:
    """Return the changes among rows as the answer to `/decisions`."""
    return {"decisions": list(reversed([*_changes(rows)]))}


def _changes(rows: list[Row]) -> Iterator[Mapping[str, object]]:
    before: object = None
    for row in rows:
        answer = row["current"], row["desired"], row["reason"]
        if answer != before:
            kept = {key: row[key] for key in ("at", "current", "desired", "floor", "ceiling")}
            reason = Reason(str(row["reason"]))
            meaning = EXPLANATIONS[reason].meaning
            yield {**kept, "reason": reason, "meaning": meaning, "kept_by": "memory"}
        before = answer


async def pretend(page: Page, rows: list[Row]) -> list[float]:
    """Answer for the past of any workload; returns, as they are asked for, the starts."""
    asked: list[float] = []

    async def answer(route: Route) -> None:
        address = urlsplit(route.request.url)
        query = parse_qs(address.query)
        if address.path.endswith("/decisions"):
            await route.fulfill(status=200, body=json.dumps(decisions(rows)))
            return
        start, end = float(query["from"][0]), float(query["to"][0])
        asked.append(start)
        chosen = [row for row in rows if start <= float(row["at"] or 0) <= end]
        await route.fulfill(status=200, body=json.dumps(history(chosen)))

    await page.route("**/history?**", answer)
    await page.route("**/decisions?**", answer)
    return asked
