"""Regular expressions as Prometheus has them: RE2, anchored at both ends."""

from __future__ import annotations

from functools import lru_cache

import re2  # type: ignore[import-untyped]

from scaler.config.faults import shortened

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # a fault is told to whoever wrote it, not to stderr


@lru_cache(maxsize=1024)
def fault_of(pattern: str) -> str | None:
    """Return what RE2 finds wrong with a pattern; `None` if nothing."""
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0] if error.args else b"not RE2"
        text: str = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return shortened(text)
    except UnicodeEncodeError:
        return "holds what is no text"
    return None


def matches(pattern: str, text: str) -> bool:
    """Say whether the whole text matches; a faulty pattern matches nothing."""
    if fault_of(pattern) is not None:
        return False
    return re2.fullmatch(pattern, text, _OPTIONS) is not None
