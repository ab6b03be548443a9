"""What is remembered is not gone through at each collection, and no cycle stays for good."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from scaler.control.heap import SEARCHED_EVERY, Heap
from tests.fakes.clock import FakeClock


class Cycle:
    """Something that only a collection ends."""

    def __init__(self) -> None:
        """Hold itself."""
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Leave nothing frozen behind."""
    yield
    gc.unfreeze()


def test_after_a_tick_a_collection_has_only_what_is_new_to_look_at() -> None:
    """All that is alive is set aside, and what came later is still collected."""
    heap = Heap(FakeClock().now)
    heap.settle()
    assert gc.get_freeze_count() > 10_000
    later = weakref.ref(Cycle())
    gc.collect()
    assert later() is None


def test_a_cycle_among_what_was_set_aside_ends_within_the_hour() -> None:
    """It stays at the next ticks, and goes with the hourly search."""
    clock = FakeClock()
    heap = Heap(clock.now)
    heap.settle()
    kept = Cycle()
    heap.settle()
    lost = weakref.ref(kept)
    del kept
    clock.set(clock.now() + SEARCHED_EVERY - 1)
    heap.settle()
    gc.collect()
    assert lost() is not None
    clock.set(clock.now() + 1)
    heap.settle()
    assert lost() is None


def test_a_clock_that_was_set_back_puts_no_search_off() -> None:
    """A time before the last search is as good as an hour after it."""
    clock = FakeClock()
    heap = Heap(clock.now)
    heap.settle()
    kept = Cycle()
    heap.settle()
    lost = weakref.ref(kept)
    del kept
    clock.set(clock.now() - 10)
    heap.settle()
    assert lost() is None
