"""What an engine counts, under vLLM's names."""

from __future__ import annotations

from scaler.simulation.histogram import E2E_EDGES, ITL_EDGES, TTFT_EDGES, Histogram


class Counters:
    """An engine's counters and histograms since its start.

    As vLLM has them: `ttft` is observed at the first token and never again, also when the client
    goes away later; `e2e` and `success` only when a request finishes; a preemption is counted when
    the request that suffered it gets its next token.
    """

    __slots__ = (
        "busy_seconds",
        "e2e",
        "generation_tokens",
        "itl",
        "preemptions",
        "prefix_hits",
        "prefix_queries",
        "prompt_tokens",
        "rejections",
        "success",
        "ttft",
    )

    def __init__(self) -> None:
        self.ttft = Histogram(TTFT_EDGES)
        self.itl = Histogram(ITL_EDGES)
        self.e2e = Histogram(E2E_EDGES)
        self.preemptions = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.rejections = 0
        self.success = 0
        self.busy_seconds = 0.0
        """Time in which a step was under way: what a GPU's utilisation gauge shows."""
