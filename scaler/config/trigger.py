"""Turns a trigger's metadata, the strings that KEDA sends, into a trigger or one error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.config.entries import Entry, entries, pair_faults, read_settings, size_fault
from scaler.config.faults import Fault, TriggerInvalid, TriggerUnresolved, shortened
from scaler.config.settings import TriggerSettings
from scaler.core.policy import Policy
from scaler.core.workload import Selection, WorkloadKey

__all__ = [
    "Fault",
    "Resolved",
    "Trigger",
    "TriggerInvalid",
    "TriggerUnresolved",
    "parse_trigger",
]

MOST_KEYS = 64
MOST_CHARACTERS = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A well-formed trigger: what its metadata says, nothing filled in.

    `given` is the metadata as it was written, without KEDA's own keys. What ends in FromEnv came
    from an environment, may be a secret, and is for no eyes.
    """

    key: WorkloadKey
    settings: TriggerSettings
    given: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A trigger filled in from its profile and the defaults: how to decide, and on which series."""

    policy: Policy
    selection: Selection


def parse_trigger(namespace: str, name: str, metadata: Mapping[str, str]) -> Trigger:
    """Read the metadata of one trigger of the ScaledObject `namespace`/`name`.

    A pure function: no configuration, no I/O. Raises TriggerInvalid with every fault.
    """
    too_large = size_fault(metadata, MOST_KEYS, MOST_CHARACTERS)
    if too_large is not None:
        raise TriggerInvalid(_subject(namespace, name), [too_large])
    faults = [] if namespace and name else [_NAMELESS]
    given, twice = entries(metadata)
    settings, unreadable = read_settings(given)
    # A half that could not be read, or that a profile may give, is not the default.
    pairs = pair_faults(settings, defaults=settings.profile is None and not unreadable)
    faults += [*twice, *unreadable, *pairs]
    if faults:
        raise TriggerInvalid(_subject(namespace, name), faults)
    key = WorkloadKey(namespace=namespace, name=name, trigger=_digest(given))
    written = tuple((entry.written_as, entry.value) for entry in given)
    return Trigger(key=key, settings=settings, given=written)


_NAMELESS = Fault(
    key="scaledObjectRef",
    problem="has no namespace or no name",
    cure="send both, as KEDA does",
)


def _subject(namespace: str, name: str) -> str:
    return f"the trigger of {shortened(namespace)}/{shortened(name)} is not valid"


def _digest(given: list[Entry]) -> str:
    """Return 8 hex digits that tell two triggers of one ScaledObject apart.

    The order of the keys, blanks around values, KEDA's own keys and the suffix FromEnv play no
    part.
    """
    canonical = json.dumps(sorted((entry.key, entry.value) for entry in given))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]
