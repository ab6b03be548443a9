"""The follower: history, gaps, outages, restarts and twins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scaler.control.ports import SourceError, SourceUnreachable
from scaler.core.policy import Policy
from scaler.core.reading import Reading
from scaler.core.reasons import Reason
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale, Selection
from tests.control.conftest import House, build
from tests.fakes.clock import settle
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import fleet_reading

FOUR = Scale(current=4, max_replicas=20)
WINDOWS = Policy(scale_out_window=60.0, scale_in_window=600.0)


def busy(_: Selection, at: float) -> Reading:
    """Show four replicas with a queue of eight each."""
    return fleet_reading(at, waiting=8.0, running=30.0)


def calm(_: Selection, at: float) -> Reading:
    """Show four replicas with nothing to do."""
    return fleet_reading(at, running=0.0, first_token_rate=0.0)


async def test_history_read_back_gives_a_decision_at_once() -> None:
    """A workload whose overload is on record is scaled out at its first tick."""
    house = build(busy, FakeCluster(chat=FOUR), policy=WINDOWS)
    house.ask()
    await house.follower.admit(tick_at(house.clock.now()))
    assert house.posting().decision.overload_for == 60
    assert (house.posting().decision.desired or 0) > 4


async def test_the_count_is_held_while_history_is_read_back() -> None:
    """KEDA's first poll, a moment after its first call, gets the count and not an error."""
    house = build(busy, FakeCluster(chat=FOUR))
    house.source.recalls_wait = asyncio.Event()
    house.ask()
    admitting = asyncio.create_task(house.follower.admit(tick_at(house.clock.now())))
    await settle()
    assert house.posting().decision.desired == 4
    assert house.posting().decision.reason is Reason.NOT_YET_SAMPLED
    house.source.recalls_wait.set()
    await admitting
    assert (house.posting().decision.desired or 0) > 4


async def test_without_memory_the_window_has_to_fill() -> None:
    """What a scaler has not seen is unknown to it: it holds until its window is covered."""
    house = build(busy, FakeCluster(chat=FOUR), remembers=False)
    house.ask()
    await house.follower.admit(tick_at(house.clock.now()))
    assert house.posting().decision.desired == 4
    assert house.posting().decision.reason is Reason.WARMING_UP
    await house.ticks(3)
    assert (house.posting().decision.desired or 0) > 4


async def test_calm_is_given_up_only_after_the_whole_window() -> None:
    """Four idle replicas stay for ten minutes and no tick longer."""
    house = build(calm, FakeCluster(chat=FOUR), policy=WINDOWS, remembers=False)
    house.ask()
    await house.ticks(39)
    assert house.posting().decision.desired == 4
    await house.ticks(1)
    assert house.posting().decision.desired == 1
    assert house.posting().decision.reason is Reason.SCALE_IN


async def test_an_outage_holds_then_answers_nothing_then_recovers() -> None:
    """A silent source holds the count for holdFor, then UNAVAILABLE; recovery needs nobody."""
    house = build(calm, FakeCluster(chat=FOUR))
    house.ask()
    await house.ticks(1)
    house.source.down = SourceUnreachable("prometheus at peak time: connection refused")
    await house.ticks(4)
    silent = house.posting()
    assert (silent.decision.desired, silent.decision.reason) == (4, Reason.SOURCE_SILENT)
    assert silent.trouble is not None
    assert "connection refused" in silent.trouble
    await house.ticks(17)
    assert house.posting().decision.desired is None
    assert house.posting().decision.reason is Reason.SILENT_TOO_LONG
    house.source.down = None
    await house.ticks(1)
    assert house.posting().trouble is None
    assert house.posting().decision.desired == 1


async def test_history_that_breaks_the_reader_ends_nothing() -> None:
    """An error that no source should raise is a trouble of its workload, not the loop's end."""
    house = build(calm, FakeCluster(chat=FOUR))
    house.source.breaks_at_recall = TypeError("secret-text")
    house.ask()
    await house.ticks(1)
    assert house.posting().decision.desired == 4
    house.source.breaks_at_recall = None
    await house.ticks(2)
    assert house.posting().trouble is None
    assert house.posting().decision.desired == 1


async def test_a_missed_tick_is_read_back() -> None:
    """After an outage the ticks that failed are asked for, and calm is proven again at once."""
    house = build(calm, FakeCluster(chat=FOUR))
    house.ask()
    await house.ticks(2)
    house.source.down = SourceUnreachable("down")
    await house.ticks(2)
    missed = tick_at(house.clock.now()) - TICK
    house.source.down = None
    await house.ticks(1)
    assert house.source.recalls[-1][1:3] == (missed, missed + TICK)
    assert house.posting().decision.reason is Reason.SCALE_IN


async def test_a_gap_that_cannot_be_read_back_forbids_scale_in() -> None:
    """On a source without memory one lost tick keeps the replicas until it has left the window."""
    house = build(calm, FakeCluster(chat=FOUR), policy=WINDOWS, remembers=False)
    house.ask()
    await house.ticks(30)
    house.source.down = SourceUnreachable("down")
    await house.ticks(1)
    house.source.down = None
    await house.ticks(39)
    assert house.posting().decision.desired == 4
    assert house.posting().decision.reason is Reason.GAP
    await house.ticks(1)
    assert house.posting().decision.desired == 1


async def test_a_source_that_hangs_counts_as_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read without an answer ends at its deadline and is a missing tick, not a stopped loop."""
    monkeypatch.setattr("scaler.control.chronicle._READ_WITHIN", 0.01)
    house = build(calm, FakeCluster(chat=FOUR))
    house.ask()
    house.source.hangs = True
    await house.ticks(1)
    trouble = house.posting().trouble
    assert trouble is not None
    assert "no answer within" in trouble


async def test_one_failing_selection_disturbs_no_other() -> None:
    """A selection that the source refuses is silent; its neighbour is decided on as ever."""

    def script(selection: Selection, at: float) -> Reading | SourceError:
        return SourceUnreachable("no") if selection.model_name == "code" else busy(selection, at)

    house = build(script, FakeCluster(chat=FOUR, code=FOUR))
    house.ask("chat")
    house.ask("code")
    await house.ticks(6)
    assert (house.posting("chat").decision.desired or 0) > 4
    assert house.posting("code").decision.desired == 4
    assert house.posting("code").decision.reason is Reason.SOURCE_SILENT


async def test_a_workload_that_cannot_be_decided_disturbs_no_other() -> None:
    """What breaks one decision costs that workload its answer, and nobody else."""

    class Broken(FakeCluster):
        def scale(self, namespace: str, name: str) -> Scale | None:
            if name == "code":
                raise KeyError(name)
            return super().scale(namespace, name)

    def script(selection: Selection, at: float) -> Reading:
        return fleet_reading(at, running=30.0, waiting=8.0, prefix=str(selection.model_name))

    house = build(script, Broken(chat=FOUR, code=FOUR))
    house.ask("code")
    house.ask("chat")
    await house.ticks(6)
    assert (house.posting("chat").decision.desired or 0) > 4
    assert house.board.snapshot.of("llm", "code") == []


async def test_a_moved_count_is_decided_on_at_once() -> None:
    """When the count changes between ticks the answer follows without a new sample."""
    cluster = FakeCluster(chat=FOUR)
    house = build(busy, cluster)
    house.ask()
    await house.ticks(6)
    wanted = house.posting().decision.desired or 0
    reads = len(house.source.reads)
    cluster.move("chat", wanted)
    await house.follower.review(tick_at(house.clock.now()))
    assert len(house.source.reads) == reads
    assert house.posting().decision.current == wanted


async def test_somebody_elses_count_is_kept_and_named() -> None:
    """A person who sets six replicas keeps them, and the reason says that it was not the scaler."""
    cluster = FakeCluster(chat=FOUR)

    def script(_: Selection, at: float) -> Reading:
        return fleet_reading(at, replicas=4, running=10.0)

    house = build(script, cluster)
    house.ask()
    await house.ticks(6)
    cluster.move("chat", 6)
    await house.follower.review(tick_at(house.clock.now()))
    assert house.posting().decision.desired == 6
    assert house.posting().decision.reason is Reason.MOVED_BY_OTHERS


async def test_without_a_cluster_the_count_is_what_the_source_knows() -> None:
    """With no cluster, reporting and silent replicas together are the current count."""

    def script(_: Selection, at: float) -> Reading:
        return fleet_reading(at, replicas=3, unseen=1)

    house = build(script, None)
    house.ask()
    await house.ticks(1)
    assert house.posting().decision.current == 4


async def test_two_scaled_objects_on_the_same_replicas_are_both_silent() -> None:
    """Where two ScaledObjects claim the same pods neither moves its fleet, and both say why."""
    house = build(busy, FakeCluster(chat=FOUR, chat2=FOUR))
    for tick in range(30):
        house.ask("chat")
        house.ask("chat2")
        await house.ticks(1)
        for name in ("chat", "chat2"):
            decision = house.posting(name).decision
            assert decision.desired == (4 if tick <= 20 else None)
            assert decision.reason is Reason.SHARED_SERIES
            assert decision.active is (True if tick <= 20 else None)


async def test_a_renamed_scaled_object_does_not_block_its_successor() -> None:
    """Once KEDA no longer asks for the old name, the new one is alone with its replicas."""
    house = build(busy, FakeCluster(chat=FOUR, old=FOUR))
    house.ask("old")
    await house.ticks(14)
    house.ask("chat")
    await house.ticks(1)
    assert (house.posting("chat").decision.desired or 0) > 4


@pytest.mark.parametrize("minutes", [1, 10])
async def test_a_clock_that_was_ahead_is_set_back(minutes: int) -> None:
    """What was sampled at instants that have not come yet is dropped: overload is seen at once."""
    ahead = minutes * 60.0
    house = build(calm, FakeCluster(chat=FOUR), remembers=False)
    house.clock.set(house.clock.now() + ahead)
    house.ask()
    await house.ticks(8)
    house.clock.set(house.clock.now() - ahead - 8 * TICK)
    house.source.script = busy
    await house.ticks(5)
    assert (house.posting().decision.desired or 0) > 4
    assert house.posting().decision.at == tick_at(house.clock.now())


async def test_an_idle_workload_is_forgotten_with_its_history() -> None:
    """Thirty minutes after its last RPC a workload leaves registry and board."""
    house = build(calm, FakeCluster(chat=FOUR))
    house.ask()
    await house.ticks(1)
    house.clock.set(house.clock.now() + 1801)
    gone = house.registry.forget_idle(house.clock.now())
    house.board.post(house.clock.now(), {}, gone)
    await house.ticks(1)
    assert not house.board.snapshot.postings
    assert len(house.source.reads[-1][1]) == 1


async def test_a_deleted_workload_is_forgotten_a_minute_later() -> None:
    """Not before, for it may be made anew; and not while a cluster that is unread is all it is."""
    house = build(calm, cluster := FakeCluster(chat=FOUR))
    house.ask()
    cluster.scales.clear()
    house.clock.set(house.clock.now() + 1799)
    assert not house.registry.forget_idle(house.clock.now(), cluster.is_gone)
    house.ask()
    cluster.delete("chat")
    house.clock.set(house.clock.now() + 59)
    assert not house.registry.forget_idle(house.clock.now(), cluster.is_gone)
    house.clock.set(house.clock.now() + 2)
    assert len(house.registry.forget_idle(house.clock.now(), cluster.is_gone)) == 1


class TestTwins:
    """Scalers that started at different times, on a source that remembers."""

    @pytest.mark.parametrize("older_by", [1, 3, 40, 200])
    async def test_agree_at_every_tick(self, older_by: int) -> None:
        """A scaler that ran for a while and one that just started give the same answer."""

        def script(_: Selection, at: float) -> Reading:
            phase = (at / TICK) % 97
            waiting = 9.0 if 20 < phase < 50 else 0.0
            return fleet_reading(at, running=5.0 + phase / 10, waiting=waiting)

        def house() -> House:
            made = build(script, FakeCluster(chat=FOUR))
            made.ask()
            return made

        first, second = house(), house()
        await first.ticks(older_by)
        second.clock.set(first.clock.now())
        second.ask()
        await second.follower.admit(tick_at(second.clock.now()))
        for twin in (first, second):
            while twin.follower.wants_minutes:
                await twin.follower.recall_a_day(tick_at(twin.clock.now()))
        for _ in range(30):
            await first.ticks(1)
            await second.ticks(1)
            ours, theirs = first.posting().decision, second.posting().decision
            assert ours.learned == theirs.learned
            assert (ours.desired, ours.reason) == (theirs.desired, theirs.reason)


async def test_an_edited_threshold_reads_the_same_history(
    make_house: Callable[..., House],
) -> None:
    """Another threshold on the same series answers at once, without asking for history again."""
    house = make_house(busy, FakeCluster(chat=FOUR), policy=Policy(waiting_high=50.0))
    house.ask()
    await house.ticks(6)
    recalls = len(house.source.recalls)
    house.ask(waitingHigh="6")
    await house.follower.admit(tick_at(house.clock.now()))
    assert len(house.source.recalls) == recalls
    assert len(house.board.snapshot.of("llm", "chat")) == 2
