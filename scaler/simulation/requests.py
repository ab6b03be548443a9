"""One request, from its arrival until it ends exactly once."""

from __future__ import annotations

import math
from enum import StrEnum

from scaler.core.units import Seconds


class Ending(StrEnum):
    """How a request ended. Every request ends in exactly one of these ways."""

    SERVED = "served"
    REJECTED = "rejected"
    """Refused: a full queue, a gateway's 429, no replica, or a prompt no engine can hold."""
    GIVEN_UP = "given_up"
    """The client went away first."""
    CUT_OFF = "cut_off"
    """The replica ended before the request did."""


class Request:
    """A request as it travels: what it asks for, and what has happened to it so far.

    `prompt` and `output` are tokens (both at least 1). `arrived` is when the client sent it. The
    client goes away when it has no first token after `patience` seconds, and in any case after
    `timeout` seconds. Requests of one `session` share a conversation, which a sticky router keeps
    together. Times are simulated seconds; `first_token_at` and `ended_at` are None until known.

    The engine owns the remaining attributes while the request is with it. For a request that
    decodes, tokens in the cache are `held_offset` plus the engine's step number, so that a step
    costs nothing per request.
    """

    __slots__ = (
        "arrived",
        "blocks",
        "computed",
        "decoding",
        "ended_at",
        "ending",
        "finish_step",
        "first_token_at",
        "held_offset",
        "last_token_at",
        "made",
        "number",
        "output",
        "patience",
        "preempted",
        "prefill",
        "prompt",
        "session",
        "submitted",
        "timeout",
        "unreported_preemptions",
        "watcher",
    )

    def __init__(
        self,
        *,
        number: int,
        arrived: Seconds,
        prompt: int,
        output: int,
        patience: Seconds = math.inf,
        timeout: Seconds = math.inf,
        session: int | None = None,
    ) -> None:
        self.number = number
        self.arrived = arrived
        self.prompt = prompt
        self.output = output
        self.patience = patience
        self.timeout = timeout
        self.session = session
        self.submitted = arrived
        self.first_token_at: Seconds | None = None
        self.last_token_at: Seconds = arrived
        self.ended_at: Seconds | None = None
        self.ending: Ending | None = None
        self.made = 0
        self.prefill = prompt
        self.computed = 0
        self.blocks = 0
        self.decoding = False
        self.held_offset = 0
        self.finish_step = 0
        self.preempted = 0
        self.unreported_preemptions = 0
        self.watcher: object = None

    def __repr__(self) -> str:
        return f"Request({self.number}, {self.prompt}+{self.output}, {self.ending or 'open'})"

    @property
    def ttft(self) -> Seconds | None:
        """Return the time to the first token as the client saw it, a gateway's queue included."""
        return None if self.first_token_at is None else self.first_token_at - self.arrived

    @property
    def tpot(self) -> Seconds | None:
        """Return the mean time per output token after the first.

        None before a served end; 0 for an output of one token, which has no gap to measure.
        """
        if self.ending is not Ending.SERVED or self.first_token_at is None:
            return None
        if self.ended_at is None or self.output <= 1:
            return 0.0
        return (self.ended_at - self.first_token_at) / (self.output - 1)

    def end(self, ending: Ending, at: Seconds) -> None:
        """Set how and when the request ended; a second end is a fault of the simulation."""
        if self.ending is not None:
            raise AssertionError(f"{self!r} ended twice: now {ending} at {at}")
        self.ending = ending
        self.ended_at = at
