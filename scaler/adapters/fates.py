"""What a client saw of one answer, and how it ended: finer than the simulator's four endings."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.units import Seconds
from scaler.simulation.requests import Ending

_STATUSES = range(100, 600)
_BUSY = frozenset({429, 503})


@dataclass(slots=True, kw_only=True)
class Seen:
    """What has arrived so far; the reader of the stream writes it, also for a client that leaves.

    Times are the clock's. `chunks` counts the pieces with text, which may hold several tokens.
    `prompt` and `output` are the server's own counts of tokens; None where it gave none.
    """

    first_token_at: Seconds | None = None
    last_token_at: Seconds | None = None
    chunks: int = 0
    prompt: int | None = None
    output: int | None = None
    finish: str | None = None
    message: str = ""
    """The server's words when it refused."""

    def tokens(self, asked: int) -> int:
        """Return how many tokens came, by the best evidence there is."""
        if self.output is not None:
            return self.output
        return asked if self.finish == "length" else self.chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """How a request ended. `ending` is None where it was never sent."""

    ending: Ending | None
    kind: str


SERVED = Fate(ending=Ending.SERVED, kind="served")
UNREACHABLE = Fate(ending=Ending.REJECTED, kind="unreachable")
RESET = Fate(ending=Ending.CUT_OFF, kind="reset")
NO_END = Fate(ending=Ending.CUT_OFF, kind="no_end")
NO_TOKEN = Fate(ending=Ending.CUT_OFF, kind="no_token")
ABORTED = Fate(ending=Ending.CUT_OFF, kind="aborted")
MALFORMED = Fate(ending=Ending.CUT_OFF, kind="malformed")
NOT_A_STREAM = Fate(ending=Ending.CUT_OFF, kind="not_a_stream")
OUT_OF_PATIENCE = Fate(ending=Ending.GIVEN_UP, kind="patience")
TIMED_OUT = Fate(ending=Ending.GIVEN_UP, kind="timeout")
TOO_MANY_OPEN = Fate(ending=None, kind="too_many_open")
NO_CONNECTION_LEFT = Fate(ending=None, kind="no_connection_left")


def refused(status: int) -> Fate:
    """Return the fate of a request that got another status than 200."""
    return Fate(ending=Ending.REJECTED, kind=f"http_{status}")


def failed(code: int | None, *, begun: bool) -> Fate:
    """Return the fate of a stream with an error event.

    vLLM refuses streams with status 200 and such an event: before the first token, a code that
    says "busy" is a rejection. All else means that the replica ended first.
    """
    rejected = not begun and code in _BUSY
    told = str(code) if code in _STATUSES else "unknown"
    return Fate(
        ending=Ending.REJECTED if rejected else Ending.CUT_OFF,
        kind=f"error_event_{told}",
    )
