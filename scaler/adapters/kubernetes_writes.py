"""Faults of writing to the API server, in the words of the ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scaler.adapters.kubernetes_errors import ClusterError, ClusterMissing, RightMissing
from scaler.control.ports import WriteDenied, WriteFailed, WriteMissing

MERGE_PATCH = "application/merge-patch+json"


@contextmanager
def translated(what: str, cost: str, right: str) -> Iterator[None]:
    """Turn a ClusterError into a WriteFailed that says what is not written and what that costs."""
    try:
        yield
    except ClusterMissing as error:
        raise WriteMissing(f"{what} is for something that has gone") from error
    except RightMissing as error:
        raise WriteDenied(f"may not write {what}: {cost} (grant {right})") from error
    except ClusterError as error:
        raise WriteFailed(f"{what} could not be written: {cost} ({error})") from error
