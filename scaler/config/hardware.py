"""Tells what measures the hardware's utilisation, which this scaler refuses to scale on.

A name is judged as a metric's or a key's name is built, word by word; values of labels never are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import promql_parser as promql

from scaler.config import regex
from scaler.config.faults import plain

REASON = (
    "measures CPU, SM or GPU utilisation, which does not show what an inference engine needs: one "
    "request keeps a GPU as busy as a hundred, and neither queue nor KV cache shows in it"
)
CURE = "scale on what the engine says of itself: waitingHigh, ttftP95High, kvCacheHigh"

KNOWN_METRICS = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY",
    "container_accelerator_duty_cycle",
    "container_cpu_usage_seconds_total",
    "node_cpu_seconds_total",
    "nvidia_gpu_duty_cycle",
    "nvidia_smi_utilization_gpu_ratio",
    "process_cpu_seconds_total",
)
"""Those that a pattern in a `__name__` matcher is tried on."""

_ENGINE_CACHE = re.compile(r"(?:^|[:_])(?:kv|gpu|cpu)_cache_usage_perc(?:$|[:_])")
_PROCESSORS = {"gpu", "nvidia", "amd", "accelerator", "sm", "cuda", "dcgm", "habana", "tpu", "xpu"}
_USE = {
    *("util", "utilization", "utilisation", "active", "activity", "occupancy", "busy", "duty"),
    "dutycycle",
}
_CPU_USE = {*_USE, "usage", "seconds", "load", "percent", "ratio", "throttled", "time"}
_CPU_OWNERS = {"container", "node", "process", "pod", "machine", "windows", "system", "instance"}
_KEY_USE = {*_CPU_USE, "threshold", "high", "low", "target", "value", "limit", "max", "min", "perc"}

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def measures_hardware(metric: str) -> bool:
    """Say whether a metric of this name measures CPU, SM or GPU utilisation."""
    if _ENGINE_CACHE.search(metric):
        return False
    words = re.split(r"[:_.]+", metric.lower())
    has = set(words)
    if has & _PROCESSORS and has & _USE:
        return True
    if any(owner in _CPU_OWNERS and word == "cpu" for owner, word in itertools.pairwise(words)):
        return True
    return "cpu" in has and bool(has & _CPU_USE)


def key_asks_for_hardware(key: str) -> bool:
    """Say whether a metadata key asks to scale on utilisation: `gpuUtilization`, `cpuThreshold`."""
    words = {word.lower() for word in _WORDS.findall(key[:200])}
    if "cache" in words:
        return False
    if plain(key) in {"cpu", "gpu", "sm", "dcgm"} or words & {"utilization", "utilisation"}:
        return True
    return bool(words & {"cpu", *_PROCESSORS}) and bool(words & _KEY_USE)


def hardware_metric(selector: promql.VectorSelector) -> str | None:
    """Return the metric of a selector, or one that its `__name__` takes in, that is refused."""
    if selector.name is not None:
        return selector.name if measures_hardware(selector.name) else None
    named = [matcher for matcher in selector.matchers.matchers if matcher.name == "__name__"]
    if not named:
        return None
    literal = [matcher.value for matcher in named if matcher.op == promql.MatchOp.Equal]
    for metric in (*literal, *KNOWN_METRICS):
        if measures_hardware(metric) and all(_takes_in(matcher, metric) for matcher in named):
            return metric
    return None


def first_hardware_metric(selectors: Iterable[promql.VectorSelector]) -> str | None:
    """Return the first refused metric of a query's selectors."""
    return next((metric for s in selectors if (metric := hardware_metric(s))), None)


def _takes_in(matcher: promql.Matcher, metric: str) -> bool:
    value = matcher.value
    if matcher.op == promql.MatchOp.Equal:
        return bool(value == metric)
    if matcher.op == promql.MatchOp.NotEqual:
        return bool(value != metric)
    return bool(regex.matches(value, metric) == (matcher.op == promql.MatchOp.Re))
