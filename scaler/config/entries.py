"""Reads a set of metadata keys, a trigger's or a profile's, collecting every fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scaler.config import hardware
from scaler.config.faults import Fault, Unreadable, nearest, quoted, shortened
from scaler.config.keys import BY_FIELD, BY_NAME, FROM_ENV, KEDA_KEYS, MISPLACED
from scaler.config.quantities import written
from scaler.config.settings import LOW_HIGH, TriggerSettings
from scaler.core.policy import Policy

_DEFAULTS = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key as written, its value trimmed. What came from an environment may be a secret."""

    key: str
    written_as: str
    value: str

    @property
    def shown(self) -> str | None:
        """Return the value for a message; `None` where it might be a secret."""
        return None if self.written_as.endswith(FROM_ENV) else self.value

    def fault(self, problem: str, cure: str, *, show: bool = True) -> Fault:
        """Return a fault of this entry."""
        return Fault(
            key=self.written_as, value=self.shown if show else None, problem=problem, cure=cure
        )


def entries(metadata: Mapping[str, str]) -> tuple[list[Entry], list[Fault]]:
    """Fold `fooFromEnv` into `foo` and leave KEDA's own keys out."""
    found: dict[str, Entry] = {}
    faults: list[Fault] = []
    for written_as in sorted(metadata):
        key = written_as.removesuffix(FROM_ENV) or written_as
        if key in KEDA_KEYS:
            continue
        entry = Entry(key=key, written_as=written_as, value=metadata[written_as].strip())
        if key in found:
            faults.append(entry.fault(f"is given beside {key}", "keep one of the two"))
            continue
        found[key] = entry
    return list(found.values()), faults


def read_settings(given: list[Entry]) -> tuple[TriggerSettings, list[Fault]]:
    """Return what could be read, and a fault for each entry that could not."""
    values: dict[str, object] = {}
    faults: list[Fault] = []
    for entry in given:
        key = BY_NAME.get(entry.key)
        if key is None:
            faults.append(_unknown(entry))
        elif not entry.value:
            faults.append(entry.fault("is empty", "leave the key out or give it a value"))
        else:
            try:
                values[key.field] = key.read(entry.value)
            except Unreadable as error:
                faults.append(_unreadable(entry, error))
    return TriggerSettings.model_validate(values), faults


def _unreadable(entry: Entry, error: Unreadable) -> Fault:
    if entry.shown is None:
        # The problem may quote the value, which came from the environment.
        return entry.fault("resolved to a value that cannot be used", "see the key's meaning")
    return entry.fault(error.problem, error.cure)


def _unknown(entry: Entry) -> Fault:
    if entry.key in MISPLACED:
        return entry.fault("is no key of this scaler", MISPLACED[entry.key], show=False)
    if hardware.key_asks_for_hardware(entry.key):
        return entry.fault(hardware.REASON, hardware.CURE, show=False)
    near = nearest(entry.key, BY_NAME)
    cure = f"did you mean {near}?" if near else "see the table of metadata keys"
    return entry.fault("is no key of this scaler", cure, show=False)


def pair_faults(settings: TriggerSettings, *, defaults: bool) -> list[Fault]:
    """Return a fault for each pair whose Low is not below its High.

    With `defaults` a missing half is the default; without, it is somebody else's to say.
    """
    faults: list[Fault] = []
    for low, high in LOW_HIGH:
        given = settings.given
        if low not in given and high not in given:
            continue
        lower, upper = _half(settings, low, defaults), _half(settings, high, defaults)
        if lower is None or upper is None or lower < upper:
            continue
        faults.append(_pair_fault(given, (low, lower), (high, upper)))
    return faults


def _half(settings: TriggerSettings, field: str, defaults: bool) -> float | None:  # noqa: FBT001
    value: float | None = getattr(settings, field)
    return getattr(_DEFAULTS, field) if value is None and defaults else value


def _pair_fault(
    given: Mapping[str, object], low: tuple[str, float], high: tuple[str, float]
) -> Fault:
    (key, value), (other, bound) = (low, high) if low[0] in given else (high, low)
    above = f"is not {'below' if key == low[0] else 'above'} {BY_FIELD[other].name}"
    whose = "" if other in given else ", its default"
    cure = "Low must be below High" if other in given else f"set {BY_FIELD[other].name} as well"
    return Fault(
        key=BY_FIELD[key].name,
        value=_as_written(key, value),
        problem=f"{above} ({_as_written(other, bound)}{whose})",
        cure=cure,
    )


def _as_written(field: str, value: float) -> str:
    return written(value) if field.startswith("ttft") else f"{value:g}"


def size_fault(metadata: Mapping[str, str], most_keys: int, most_bytes: int) -> Fault | None:
    """Return a fault for metadata that is larger than any honest trigger's."""
    if len(metadata) > most_keys:
        return Fault(
            key="metadata", problem=f"has {len(metadata)} keys", cure=f"at most {most_keys}"
        )
    size = sum(len(key) + len(value) for key, value in metadata.items())
    if size > most_bytes:
        longest = max(metadata, key=lambda key: len(key) + len(metadata[key]))
        return Fault(
            key="metadata",
            problem=f"has {size} characters, most of them in {quoted(shortened(longest, 40))}",
            cure=f"at most {most_bytes}",
        )
    return None
