"""Whose silence it is when nobody answers: the engines', not the source's."""

from __future__ import annotations

import json
from pathlib import Path

from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.control.ports import SourceError, SourceUnreachable
from scaler.core.units import tick_at
from scaler.core.workload import Selection
from tests.fakes.clock import FakeClock

CHAT = Selection(source="s", namespace="llm", model_name="tiny")


async def test_engines_that_do_not_answer_are_told_from_a_source_that_fails(tmp_path: Path) -> None:
    """A diagnosis may then say that the pods cannot be scraped; other errors do not say so."""
    targets = tmp_path / "targets.json"
    row = {"targets": ["127.0.0.1:1"], "labels": {"namespace": "llm", "pod": "chat-0"}}
    targets.write_text(json.dumps([row]), encoding="utf-8")
    clock = FakeClock()
    source = ScrapeSource(ScrapeSettings(targets=targets, name="s"), clock)
    await source.scrape_once()
    found = (await source.read([CHAT], tick_at(clock.now())))[CHAT]
    assert isinstance(found, SourceError)
    assert found.targets_silent
    assert not SourceUnreachable("the source itself").targets_silent
