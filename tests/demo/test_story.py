"""The verdict on a cycle."""

from __future__ import annotations

import pytest

from scaler.core.reasons import Reason
from scaler.demo.story import Story, Verdict
from tests.demo.postings import line, posting


def told(calm: list[int], burst: list[int], after: list[int]) -> Verdict:
    """Tell a cycle by the fleet's sizes in its phases."""
    story = Story()
    for name, sizes in (("calm", calm), ("burst", burst), ("calm", after)):
        for size in sizes:
            story.note(line(name, size))
    return story.verdict(served=100, arrived=101)


@pytest.mark.parametrize(
    ("calm", "burst", "after", "verdict"),
    [
        ([2, 2], [2, 5, 8], [8, 3], "good"),
        ([2, 3], [3, 4], [4, 3], "good"),
        ([2, 2], [2, 5], [5, 7, 6], "bad"),
        ([2, 2], [2, 5], [5, 5], "bad"),
        ([2, 4], [4, 4], [4, 2], "bad"),
        ([4, 4], [4, 3], [3, 2], "bad"),
        ([2, 2], [2, 2], [5, 2], "bad"),
        ([2, 2], [2, 5], [], "bad"),
        ([], [2, 5], [5, 2], "bad"),
        ([], [], [], "bad"),
    ],
)
def test_good_is_growth_under_the_burst_and_less_after_it(
    calm: list[int], burst: list[int], after: list[int], verdict: str
) -> None:
    """Growth in the ramp or after the burst does not count, nor does half of the story."""
    assert told(calm, burst, after).good is (verdict == "good")


def test_a_good_cycle_s_sentence_has_the_figures() -> None:
    """Sizes, reasons in their order, requests and the worst TTFT of the whole cycle."""
    story = Story()
    story.note(line("calm", 2, posting(2, 2, Reason.STEADY, ttft=0.2)))
    for reason in (Reason.SCALE_OUT_KV_CACHE, Reason.SCALE_OUT_QUEUE, Reason.SCALE_OUT_KV_CACHE):
        story.note(line("burst", 5, posting(4, 5, reason, ttft=17.0)))
    story.note(line("burst", 8, posting(8, 8, Reason.STEADY)))
    story.note(line("calm", 8, posting(8, 3, Reason.SCALE_IN, ttft=20.0)))
    story.note(line("calm", 3))
    assert story.verdict(served=100, arrived=101).sentence == (
        "The burst of long prompts took the fleet from 2 to 8 replicas (scale-out-kv-cache, "
        "scale-out-queue). After it the fleet shrank to 3. 100 of 101 requests were served; the "
        "worst TTFT p95 was 20.0 s."
    )


@pytest.mark.parametrize(
    ("calm", "burst", "after", "words"),
    [
        ([2, 4], [4, 5], [5, 3], "The ramp took the fleet from 2 to 4. The burst"),
        ([2, 2], [2, 2], [2, 1], "did not grow under the burst: 2 replicas were there already"),
        ([2, 2], [2, 5], [5, 6], "After it the fleet did not shrink: 5 replicas at the least"),
        ([2, 2], [2, 5], [], "cut short"),
        ([2], [2, 3], [2], "worst TTFT p95 was not known"),
    ],
)
def test_the_sentence_says_what_went_otherwise(
    calm: list[int], burst: list[int], after: list[int], words: str
) -> None:
    """Whoever reads that it failed reads where."""
    assert words in told(calm, burst, after).sentence
