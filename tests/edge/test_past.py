"""The day that the board keeps, over HTTP: columns, changes, and one moment explained again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

import pytest

from scaler.control.archive import Change
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.core.workload import WorkloadKey
from scaler.tuning.prepared import Prepared
from scaler.tuning.rehearsal import rehearse
from tests.core.histories import BUSY, IDLE, QUEUEING, row_of, steady, ttft_in
from tests.edge.site import Site, served
from tests.edge.world import NOON, World
from tests.tuning.records import record_of

CHAT = "/api/v1/workloads/prod/chat"


def lived_world() -> World:
    """Return a world whose board has kept an hour: calm, then a queue, then a silence."""
    world = World()
    calm, queue = replace(IDLE, running=8.0), replace(QUEUEING, ttft=ttft_in(5))
    samples = [*steady(calm, 160), *steady(queue, 40), *steady(BUSY, 41)]
    record = record_of(row_of(*samples, end=NOON))
    entry = world.entry()
    assert entry.resolved is not None
    prepared = Prepared(record)
    for moment, step in zip(record.moments, rehearse(prepared, entry.resolved.policy), strict=True):
        heard = moment.at <= NOON - 20 * TICK
        decision = step.decision
        if not heard:
            decision = replace(decision, sample=None, need=None, reason=Reason.SOURCE_SILENT)
        sample = moment.sample if heard else None
        world.board.archive.keep(entry.key, decision, sample=sample, scale=moment.scale)
        world.post(decision)
    return world


def column(site_answer: object, name: str) -> list[object]:
    """Return a column."""
    assert isinstance(site_answer, dict)
    values = site_answer[name]
    assert isinstance(values, list)
    return values


async def test_history_comes_in_columns() -> None:
    """As many values in each, what nobody knows as null, and at which resolution."""
    async with served(lived_world()) as site:
        answer = await site.get(f"{CHAT}/history")
        columns = answer.at("columns")
        assert isinstance(columns, dict)
        assert {len(values) for values in columns.values()} == {241}
        assert column(columns, "waiting")[-1] is None
        assert column(columns, "waiting")[199] == QUEUEING.waiting
        assert column(columns, "ttft_p95")[170] == pytest.approx(3.75)
        assert column(columns, "reason")[-1] == Reason.SOURCE_SILENT.value
        assert answer.at("resolution", 0, "step") == TICK
        assert answer.at("policy", "waiting_high") == 5.0
        part = await site.get(f"{CHAT}/history?from={NOON - 600}&to={NOON - 300}")
        assert part.at("columns", "at", 0) == NOON - 600
        assert len(column(part.at("columns"), "at")) == 21
        off = await site.get(f"{CHAT}/history?from={NOON - 3598.5}")
        assert len(column(off.at("columns"), "at")) == 240
        none = await site.get(f"{CHAT}/history?from={NOON + 1}")
        assert none.at("columns", "at") == []


async def test_changes_come_newest_first() -> None:
    """Each with what its reason means; no more than were asked for."""
    async with served(lived_world()) as site:
        answer = await site.get(f"{CHAT}/decisions?limit=3")
        found = answer.at("decisions")
        assert isinstance(found, list)
        assert len(found) == 3
        instants = answer.each("decisions", "at")
        assert instants == sorted(instants, reverse=True)  # type: ignore[type-var]
        assert answer.at("decisions", 0, "reason") == Reason.SOURCE_SILENT.value
        assert answer.at("decisions", 0, "meaning")


class Drawer:
    """Keeps one change from before the board began, and says what it was asked."""

    def __init__(self) -> None:
        """Be well."""
        self.fault: str | None = None
        self.asked: list[tuple[float, float, int, list[str]]] = []

    async def changes(
        self, key: WorkloadKey, start: float, end: float, limit: int, but: Collection[str] = ()
    ) -> list[Change]:
        """Return the change."""
        assert key.name == "chat"
        self.asked.append((start, end, limit, [*but]))
        return [
            Change(
                at=NOON - 90_000,
                current=2,
                desired=3,
                advised=3,
                floor=3,
                ceiling=None,
                reason=Reason.SCALE_OUT_TTFT,
            )
        ]


async def test_a_file_goes_on_where_memory_ends() -> None:
    """Older changes come from the file, as many as are still wanted, and its fault with them."""
    drawer = Drawer()
    async with served(lived_world()) as site:
        site.server.past.kept = drawer
        drawer.fault = "the disk is full"
        answer = await site.get(f"{CHAT}/decisions")
        kept_by = answer.each("decisions", "kept_by")
        assert kept_by == ["memory"] * (len(kept_by) - 1) + ["file"]
        assert answer.at("decisions", len(kept_by) - 1, "reason") == "scale-out-ttft"
        assert answer.at("fault") == "the disk is full"
        ((_, end, limit, but),) = drawer.asked
        first = answer.at("decisions", len(kept_by) - 2, "at")
        assert (end, limit, but) == (first, 200 - len(kept_by) + 1, [])
        then = await site.get(f"{CHAT}?at={NOON - 89_000}")
        assert then.at("triggers", 0, "from") == "file"
        assert then.at("triggers", 0, "answered", "desired") == 3
        assert then.at("triggers", 0, "explained") is None
        assert then.at("triggers", 0, "resolution") is None
        text = (await site.get(f"{CHAT}?at={NOON - 89_000}&format=text")).text
        assert "from the file of decisions" in text
        assert "current 2, answered 3 (scale-out-ttft" in text
        del drawer.asked[1:]
        few = await site.get(f"{CHAT}/decisions?limit=1")
        assert few.each("decisions", "kept_by") == ["memory"]
        assert len(drawer.asked) == 1


async def test_a_past_moment_is_explained_as_it_was() -> None:
    """What was answered, and the whole explanation computed from the samples of that time."""
    async with served(lived_world()) as site:
        at = NOON - 60 * TICK
        answer = await site.get(f"{CHAT}?at={at + 7}")
        then = answer.at("triggers", 0)
        assert isinstance(then, dict)
        assert (then["at"], then["resolution"], then["from"], then["same"]) == (
            at,
            TICK,
            "board",
            True,
        )
        assert answer.at("triggers", 0, "explained", "fleet", "waiting") == QUEUEING.waiting
        reason = answer.at("triggers", 0, "answered", "reason")
        assert answer.at("triggers", 0, "explained", "because", "reason") == reason
        text = (await site.get(f"{CHAT}?at={at}&format=text")).text
        assert "from the board, which has a sample each 15 s" in text
        assert str(reason) in text


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        (f"?at={NOON - 9 * 3600}", 404, "it remembers from"),
        (f"?at={NOON - 9 * 3600}", 404, "--explain-at 20"),
        ("?at=noon", 400, "a time in seconds"),
        ("?at=inf", 400, "a time in seconds"),
        ("/history?from=1e300", 400, "a time in seconds"),
        ("/decisions?limit=0", 400, "limit"),
        ("/history?trigger=none", 404, "no trigger none"),
        ("/decisions?to=-1", 400, "a time in seconds"),
    ],
)
async def test_what_cannot_be_answered_is_said(path: str, status: int, part: str) -> None:
    """A moment that is not remembered, and times that are none."""
    async with served(lived_world()) as site:
        answer = await site.get(CHAT + path)
        assert answer.status == status
        assert part in str(answer.at("error", "message"))


async def test_those_who_ask_together_are_all_answered_or_told_to_wait() -> None:
    """One is computed at a time; a crowd is turned away with a sentence."""
    async with served(lived_world()) as site:

        async def ask(site: Site) -> int:
            return (await site.get(f"{CHAT}?at={NOON}")).status

        statuses = await asyncio.gather(*(ask(site) for _ in range(20)))
        assert set(statuses) <= {200, 503}
        assert statuses.count(200) >= 8
