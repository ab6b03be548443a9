"""What a scrape source would say of a simulated fleet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.core.units import RATE_WINDOW, Seconds
from scaler.simulation.engine import Engine
from scaler.simulation.histogram import TTFT_EDGES
from scaler.simulation.replica import Replica

# Ticks fall on the same instants as the window's edge; rounding must not decide.
_SLACK: Seconds = 1e-6


class _Seen:
    """An engine's counters at one scrape."""

    __slots__ = ("at", "busy", "preemptions", "prompts", "rejections", "tokens", "ttft")

    def __init__(self, engine: Engine, at: Seconds) -> None:
        counters = engine.counters
        self.at = at
        self.ttft = counters.ttft.cumulative()
        self.tokens = counters.generation_tokens
        self.prompts = counters.prompt_tokens
        self.preemptions = counters.preemptions
        self.rejections = counters.rejections
        self.busy = counters.busy_seconds


class Scraper:
    """Scrapes replicas at the ticks and turns counters into rates, as a scrape source does.

    A rate is the growth between the oldest scrape within `RATE_WINDOW` and this one, over their
    distance; with a single scrape it is not known, and a second one at the same instant replaces
    the first. A replica that no longer reports drops out with its history. Engines never reset: a
    restarted one is a new replica.
    """

    def __init__(self) -> None:
        self._seen: dict[str, deque[_Seen]] = {}
        self._gateway: deque[tuple[Seconds, int]] = deque()

    def scrape(
        self,
        replicas: Iterable[Replica],
        at: Seconds,
        *,
        unseen: int = 0,
        held: int | None = None,
        refused: int | None = None,
    ) -> Reading:
        """Scrape these replicas, whose engines stand at `at`.

        `held` and `refused` are the gateway's queue and its count of 429s, where there is one.
        """
        reporting = sorted(replicas, key=lambda replica: replica.name)
        names = {replica.name for replica in reporting}
        for name in [name for name in self._seen if name not in names]:
            del self._seen[name]
        for replica in reporting:
            history = self._seen.setdefault(replica.name, deque())
            if history and history[-1].at == at:
                history.pop()
            history.append(_Seen(replica.engine, at))
            while history[0].at < at - RATE_WINDOW - _SLACK:
                history.popleft()
        return Reading(
            at=at,
            scraped_at=at,
            replicas=tuple(self._replica(replica, at) for replica in reporting),
            unseen=unseen,
            ttft=self._ttft(),
            rejection_rate=self._refusals(at, refused),
            activation=None if held is None else float(held),
        )

    def utilisation(self) -> float | None:
        """Return the share of time in which a step was under way, mean over replicas, or None.

        Between the last two scrapes: what a GPU's utilisation gauge would show.
        """
        shares = []
        for history in self._seen.values():
            if len(history) > 1:
                before, now = history[-2], history[-1]
                shares.append((now.busy - before.busy) / (now.at - before.at))
        return min(1.0, sum(shares) / len(shares)) if shares else None

    def _replica(self, replica: Replica, at: Seconds) -> ReplicaReading:
        engine = replica.engine
        history = self._seen[replica.name]
        first, last = history[0], history[-1]
        span = last.at - first.at
        busy = 0.0 if engine.busy_since is None else max(0.0, at - engine.busy_since)
        return ReplicaReading(
            name=replica.name,
            running=float(engine.running),
            waiting=float(engine.waiting),
            kv_cache=engine.kv_cache_usage,
            asleep=engine.asleep,
            busy_for=min(busy, RATE_WINDOW),
            first_token_rate=(last.ttft[-1] - first.ttft[-1]) / span if span else None,
            token_rate=(last.tokens - first.tokens) / span if span else None,
            prompt_token_rate=(last.prompts - first.prompts) / span if span else None,
            preemption_rate=(last.preemptions - first.preemptions) / span if span else None,
            rejection_rate=(last.rejections - first.rejections) / span if span else None,
        )

    def _ttft(self) -> LatencyBuckets | None:
        grown = [0.0] * len(TTFT_EDGES)
        known = False
        for history in self._seen.values():
            if len(history) > 1:
                known = True
                first, last = history[0].ttft, history[-1].ttft
                for index, count in enumerate(last):
                    grown[index] += count - first[index]
        return LatencyBuckets(edges=TTFT_EDGES, counts=tuple(grown)) if known else None

    def _refusals(self, at: Seconds, refused: int | None) -> float | None:
        if refused is None:
            return None
        if self._gateway and self._gateway[-1][0] == at:
            self._gateway.pop()
        self._gateway.append((at, refused))
        while self._gateway[0][0] < at - RATE_WINDOW - _SLACK:
            self._gateway.popleft()
        since, before = self._gateway[0]
        return (refused - before) / (at - since) if at > since else None
