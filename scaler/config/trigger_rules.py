"""Rules for one trigger of ours in a manifest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from scaler.config.entries import entries, pair_faults, read_settings, size_fault
from scaler.config.faults import Fault, quoted
from scaler.config.findings import Finding, Manifest, mapping
from scaler.config.keys import BY_NAME, FROM_ENV, TLS_KEYS
from scaler.config.quantities import written
from scaler.config.settings import TriggerSettings
from scaler.config.trigger import MOST_CHARACTERS, MOST_KEYS
from scaler.core.policy import Signal
from scaler.core.units import Seconds

SCRAPE_INTERVAL: Seconds = 15.0
"""What most Prometheus servers are set to, and three of which a window must hold."""

TTFT_EDGES: tuple[Seconds, ...] = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""The buckets of vLLM's time to first token, as a server without settings of its own has them."""


def trigger_findings(
    manifest: Manifest, index: int, trigger: Mapping[str, object]
) -> Iterator[Finding]:
    """Yield what is wrong with the trigger itself."""
    metadata = mapping(trigger.get("metadata"))
    place = ("spec", "triggers", index)
    if not metadata.get("scalerAddress"):
        yield manifest.error(
            "no-address",
            "the trigger has no scalerAddress: KEDA cannot reach the scaler",
            "add scalerAddress: HOST:PORT to its metadata",
            *place,
        )
    yield from _metric_type(manifest, index, trigger)
    yield from _misplaced_tls(manifest, index, metadata)
    if trigger.get("useCachedMetrics"):
        yield manifest.warning(
            "cached-metrics",
            "useCachedMetrics makes the HPA read answers up to one pollingInterval old",
            "leave it out: the scaler answers from memory",
            *place,
            "useCachedMetrics",
        )
    yield from _metadata(manifest, index, metadata)


def _metric_type(
    manifest: Manifest, index: int, trigger: Mapping[str, object]
) -> Iterator[Finding]:
    kind = trigger.get("metricType")
    if kind is None or kind in ("", "AverageValue"):
        return
    why = {
        "Value": "metricType Value multiplies the scaler's answer, which is a replica count, by "
        "the pods that are ready: 3 becomes 6, 12, 24, and none ready becomes the minimum",
        "Utilization": "KEDA refuses metricType Utilization for external triggers",
    }.get(str(kind), f"metricType {quoted(str(kind))} does not exist")
    yield manifest.error(
        "metric-type",
        why,
        "leave metricType out: the default AverageValue is right",
        *("spec", "triggers", index, "metricType"),
    )


def _misplaced_tls(
    manifest: Manifest, index: int, metadata: Mapping[str, object]
) -> Iterator[Finding]:
    for key in metadata:
        if key.removesuffix(FROM_ENV) in TLS_KEYS:
            yield manifest.warning(
                "tls-in-metadata",
                f"KEDA reads {key.removesuffix(FROM_ENV)} from a TriggerAuthentication only: here "
                "it does nothing, and whoever may read the ScaledObject can read it",
                "move it into a TriggerAuthentication",
                *("spec", "triggers", index, "metadata", key),
            )


def _metadata(manifest: Manifest, index: int, metadata: Mapping[str, object]) -> Iterator[Finding]:
    place = ("spec", "triggers", index, "metadata")
    for key in sorted(key for key, value in metadata.items() if not isinstance(value, str)):
        yield manifest.error(
            "not-text",
            f"the value of {key} is no text: the API server refuses it",
            "put it into quotation marks",
            *place,
            key,
        )
    settings, faults = _read({key: _as_text(value) for key, value in metadata.items()})
    for fault in faults:
        yield manifest.error("metadata", _said(fault), fault.cure, *place, fault.key)
    yield from _thresholds(manifest, place, settings)
    yield from _short_window(manifest, place, settings)


def _as_text(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _read(metadata: Mapping[str, str]) -> tuple[TriggerSettings, list[Fault]]:
    """Read the metadata as far as a manifest tells it.

    Under `fooFromEnv` stands an environment variable's name: its value only the cluster knows.
    """
    too_large = size_fault(metadata, MOST_KEYS, MOST_CHARACTERS)
    if too_large is not None:
        return TriggerSettings(), [too_large]
    given, faults = entries(metadata)
    later = [entry for entry in given if entry.shown is None]
    settings, unreadable = read_settings([entry for entry in given if entry.shown is not None])
    _, unknown = read_settings([entry for entry in later if entry.key not in BY_NAME])
    open_ended = settings.profile is not None or bool(later) or bool(unreadable)
    pairs = pair_faults(settings, defaults=not open_ended)
    return settings, [*faults, *unreadable, *unknown, *pairs]


def _said(fault: Fault) -> str:
    value = "" if fault.value is None else f" {quoted(fault.value)}"
    return f"{fault.key}:{value} {fault.problem}"


def _thresholds(
    manifest: Manifest, place: tuple[str | int, ...], settings: TriggerSettings
) -> Iterator[Finding]:
    if settings.signals is not None and Signal.TTFT not in settings.signals:
        return
    given = (("ttftP95High", settings.ttft_p95_high), ("ttftP95Low", settings.ttft_p95_low))
    for key, value in given:
        if value is None or value in TTFT_EDGES:
            continue
        at = bisect_left(TTFT_EDGES, value)
        near = " and ".join(written(edge) for edge in TTFT_EDGES[max(0, at - 1) : at + 1])
        yield manifest.warning(
            "between-buckets",
            f"{key} {written(value)} lies between the edges of vLLM's histogram, which tells a "
            "latency only to its bucket",
            f"the edges near it are {near}",
            *place,
            key,
        )


def _short_window(
    manifest: Manifest, place: tuple[str | int, ...], settings: TriggerSettings
) -> Iterator[Finding]:
    window = settings.scale_out_window
    if window is not None and window < 3 * SCRAPE_INTERVAL:
        yield manifest.warning(
            "short-window",
            f"scaleOutWindow {written(window)} is shorter than three scrapes of 15s, which it must "
            "hold: with such a Prometheus it never adds a replica",
            "write 45s or more, or scrape the engines more often",
            *place,
            "scaleOutWindow",
        )
