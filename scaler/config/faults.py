"""What can be wrong with what a user wrote: each fault with its cure, all of them in one error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SHOWN_VALUE = 60
_SHOWN_FAULTS = 16
_SHOWN_KEY = 60


class Unreadable(ValueError):
    """A text is not what its key asks for: `problem` says why, `cure` what to write instead."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem} ({cure})")
        self.problem = problem
        self.cure = cure


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `value` is `None` where there is none or it must not be shown."""

    key: str
    value: str | None = None
    problem: str
    cure: str

    def __str__(self) -> str:
        """Write the fault as one clause."""
        shown = "" if self.value is None else f" {quoted(self.value)}"
        return f"{shortened(self.key, _SHOWN_KEY)}:{shown} {self.problem} ({self.cure})"


class ConfigurationError(Exception):
    """Something a user wrote cannot be used. Holds every fault; the message is for people."""

    def __init__(self, subject: str, faults: Sequence[Fault]) -> None:
        self.subject = subject
        self.faults = tuple(faults)
        super().__init__(_message(subject, self.faults))


class TriggerInvalid(ConfigurationError):
    """A trigger's metadata is faulty in itself, whatever the server's configuration says."""


class TriggerUnresolved(ConfigurationError):
    """A trigger is well-formed, but the server's present configuration cannot serve it."""


class ConfigInvalid(ConfigurationError):
    """The server's own configuration is faulty."""


def _message(subject: str, faults: tuple[Fault, ...]) -> str:
    shown = "; ".join(str(fault) for fault in faults[:_SHOWN_FAULTS])
    rest = len(faults) - _SHOWN_FAULTS
    more = f"; and {rest} more faults" if rest > 0 else ""
    return visible(f"{subject}: {shown}{more}")


def visible(text: str) -> str:
    """Escape what does not print: a message is one line, whatever it quotes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, at_most: int = _SHOWN_VALUE) -> str:
    """Cut a text for a message, with control characters made visible."""
    plain_text = visible(text[: at_most + 1])
    return plain_text if len(plain_text) <= at_most else plain_text[: at_most - 1] + "…"


def quoted(text: str) -> str:
    """Put a text into quotation marks for a message, shortened."""
    return f'"{shortened(text)}"'


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, if any is near."""
    by_fold = {plain(name): name for name in known}
    found = difflib.get_close_matches(plain(word)[:100], by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def plain(word: str) -> str:
    """Fold away what people vary: case, dashes, dots and underscores."""
    return "".join(c for c in word.lower() if c.isalnum())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the cure for an unknown word."""
    names = list(known)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean {near}?"
    return f"known: {', '.join(names)}" if names else "none is configured"
