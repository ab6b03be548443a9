"""The tuning desk: other thresholds put to a recorded past, over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

import pytest
import yaml

from scaler.config.resolve import resolve
from scaler.config.server import load_config
from scaler.config.trigger import Resolved, Trigger, parse_trigger
from scaler.core.minutes import MINUTE
from scaler.core.policy import Policy
from scaler.core.units import TICK
from scaler.tuning.comparison import outcome
from scaler.tuning.prepared import Prepared
from tests.control.test_archive import kept_for
from tests.core.histories import NOW
from tests.edge.a_day import Kept
from tests.edge.site import Answer, Site, served
from tests.edge.world import NOON, World, decided
from tests.keda_client import scaled_object

pytestmark = pytest.mark.timeout(60)

_CONFIG = load_config(None, {}, {"source": "scrape", "targets": "targets.json"})
GIVEN = {"modelName": "llama", "waitingHigh": "6"}


@dataclass(slots=True, kw_only=True)
class Configured(World):
    """A world whose triggers mean what their metadata says."""

    def resolve(self, trigger: Trigger) -> Resolved:
        """Resolve with a real configuration."""
        return resolve(trigger, _CONFIG)


def world(**metadata: str) -> World:
    """Return a world with one workload."""
    found = Configured()
    found.post(decided(), scaled_object(metadata={**GIVEN, **metadata}))
    return found


async def rehearsed(site: Site, hours: int = 6, **keys: str) -> Answer:
    """Ask the desk."""
    query = urlencode({"hours": hours, **keys})
    return await site.get(f"/api/v1/workloads/prod/chat/rehearsal?{query}")


serving = partial(served, records=Kept(hours=6))


async def test_nothing_changed_is_the_present_policy_on_the_past() -> None:
    """Before and after are the same figures, which are the rehearsal's own."""
    async with serving(world()) as site:
        answer = await rehearsed(site)
        key = next(iter(site.world.board.snapshot.postings))
    record = Kept(hours=6).record(key, 0, NOON)
    own = outcome(Prepared(record), Policy(waiting_high=6.0))
    assert answer.status == 200
    assert answer.at("faults") == []
    assert answer.at("before") == answer.at("after")
    assert answer.at("after", "replica_hours") == pytest.approx(own.figures.replica_hours)
    assert answer.at("recorded", "replica_hours") == pytest.approx(own.recorded.replica_hours)
    assert answer.at("columns", "followed") == list(own.line.followed)
    assert answer.at("columns", "floor") == list(own.line.floor)
    assert answer.at("seconds") == own.seconds
    assert str(answer.at("caveat")).startswith("Open loop")


async def test_a_changed_key_moves_what_comes_after_and_leaves_what_was_before() -> None:
    """A longer calm keeps more replicas for longer, and the present policy stays in force."""
    async with serving(world()) as site:
        before = await rehearsed(site)
        after = await rehearsed(site, scaleInWindow="1h")
        assert len(site.world.registry) == 1
    assert after.at("before") == before.at("before")
    assert after.at("columns", "followed_before") == before.at("columns", "followed")
    hours = [float(str(each.at("after", "replica_hours"))) for each in (before, after)]
    assert hours[1] > hours[0]
    assert after.at("present", "scaleInWindow") == 300.0
    assert after.at("values", "scaleInWindow") == 3600.0


async def test_a_higher_threshold_is_exceeded_for_less_time() -> None:
    """Time over a threshold is counted against the threshold that is tried."""
    async with serving(world()) as site:
        answer = await rehearsed(site, waitingHigh="40")
    assert answer.at("after", "time_over", "waiting") == 0.0
    assert float(str(answer.at("before", "time_over", "waiting"))) > 0


async def test_the_snippet_is_a_trigger_that_says_what_was_tried() -> None:
    """What is copied parses to the policy of the rehearsal; quotes keep numbers text."""
    selector = 'app="chat",tier=~"gold|silver"'
    async with serving(world(selector=selector)) as site:
        answer = await rehearsed(site, waitingHigh="9", scaleOutWindow="2m")
    metadata = yaml.safe_load(str(answer.at("snippet")))["metadata"]
    assert metadata == {
        "modelName": "llama",
        "selector": selector,
        "waitingHigh": "9",
        "scaleOutWindow": "2m",
    }
    assert answer.at("metadata") == metadata
    settings = parse_trigger("prod", "chat", metadata).settings
    assert (settings.waiting_high, settings.scale_out_window) == (9.0, 120.0)


async def test_what_came_from_an_environment_is_shown_nowhere() -> None:
    """It may be a secret; it still counts, and it is replaced when its key is tried."""
    async with serving(world(ttftP95HighFromEnv="7777ms", modelName="llama")) as site:
        answer = await rehearsed(site, ttftP95Low="0.9")
        tried = await rehearsed(site, ttftP95High="3")
    assert "7777" not in answer.text.replace("7.777", "")
    assert answer.at("metadata", "ttftP95HighFromEnv") is None
    assert "ttftP95High:" not in str(answer.at("snippet"))
    assert 'ttftP95High: "3"' in str(tried.at("snippet"))


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        ({"waitingHigh": "0.5"}, ["waitingHigh"]),
        ({"kvCacheHigh": "85", "scaleInWindow": "soon"}, ["kvCacheHigh", "scaleInWindow"]),
        ({"waitingHihg": "5"}, ["waitingHihg"]),
        ({"modelName": "other"}, ["modelName"]),
    ],
)
async def test_what_cannot_be_is_listed_with_its_cure(
    keys: dict[str, str], parts: list[str]
) -> None:
    """Every fault is named, and nothing is rehearsed."""
    async with serving(world()) as site:
        answer = await rehearsed(site, 6, **keys)
    assert answer.status == 200
    faults = [str(fault) for fault in answer.each("faults", "key")]
    assert all(any(part in fault for fault in faults) for part in parts)
    assert all(answer.each("faults", "cure"))
    assert '"columns"' not in answer.text


async def test_a_past_is_prepared_once_for_many_hands_on_a_slider() -> None:
    """The next one is only fetched when the board has gone on for some minutes."""
    kept = Kept(hours=6)
    site_world = world()
    async with served(site_world, records=kept) as site:
        answers = await asyncio.gather(*(rehearsed(site, waitingHigh=f"{n}") for n in (3, 4, 5)))
        assert [each.status for each in answers] == [200, 200, 200]
        once = kept.asked
        assert once == 7  # an hour at a time, and the newest moment
        site_world.post(decided(at=NOON + 300), scaled_object(metadata=GIVEN))
        await rehearsed(site)
    assert kept.asked == 2 * once


async def test_the_board_s_own_day_is_rehearsed_whole() -> None:
    """Read an hour at a time, minutes and ticks, it is the same past as read at once."""
    site_world = world()
    (key,) = site_world.board.snapshot.postings
    kept_for(26 * 3600.0, site_world.board.archive, key)
    site_world.post(decided(at=NOW), scaled_object(metadata=GIVEN))
    async with served(site_world) as site:
        answer = await rehearsed(site, hours=24)
    whole = site_world.board.archive.record(key, NOW - 24 * 3600.0, NOW)
    own = outcome(Prepared(whole), Policy(waiting_high=6.0))
    assert {moment.step for moment in whole.moments} == {MINUTE, TICK}
    assert answer.at("columns", "at") == list(own.line.at)
    assert answer.at("columns", "followed") == list(own.line.followed)
    assert answer.at("seconds") == own.seconds


async def test_too_many_hands_are_refused_in_words() -> None:
    """Rehearsals take turns, and a queue of them is kept short."""
    async with serving(world()) as site:
        answers = await asyncio.gather(*(rehearsed(site, waitingHigh=f"{n}") for n in range(2, 22)))
    statuses = {answer.status for answer in answers}
    assert statuses == {200, 503}
    refused = next(answer for answer in answers if answer.status == 503)
    assert "try again" in str(refused.at("error", "message"))


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("prod/chat/rehearsal?hours=25", 400, "from 1 to 24"),
        ("prod/chat/rehearsal?hours=-1", 400, "from 1 to 24"),
        ("prod/none/rehearsal", 404, "no workload prod/none"),
        ("prod/chat/rehearsal?trigger=other", 404, "no trigger other"),
        ("prod/chat/rehearsal", 503, "nothing is recorded of prod/chat yet"),
    ],
)
async def test_what_cannot_be_rehearsed_is_said_so(path: str, status: int, part: str) -> None:
    """One sentence each."""
    async with served(world(), records=Kept(hours=0)) as site:
        answer = await site.get(f"/api/v1/workloads/{path}")
    assert answer.status == status
    assert part in str(answer.at("error", "message"))
