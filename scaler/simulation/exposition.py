"""A replica's `/metrics` page, as vLLM writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from scaler.simulation.engine import Engine
from scaler.simulation.histogram import Histogram

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
"""What vLLM answers, whatever was asked for."""

Values = Callable[[Engine], Mapping[str, float]]
"""An engine's values of one family, by the value of the family's own label ("" for none)."""


def exposition(engines: Sequence[Engine], *, model_name: str) -> str:
    """Write one replica's page: each of its engines under its own `engine` label, from "0" on.

    The gauges are those of each engine's last step: call `advance` first. Families that only
    describe requests in more detail than any scaler reads are left out.
    """
    lines: list[str] = []
    for name, kind, text, label, values in _FAMILIES:
        lines += _head(name, kind, text)
        for number, engine in enumerate(engines):
            for value_of_label, value in values(engine).items():
                own = {label: value_of_label} if label else {}
                labels = {"engine": str(number), "model_name": model_name, **own}
                lines.append(_sample(name, labels, value))
    lines += _rejections(engines, model_name)
    for name, text, pick in _HISTOGRAMS:
        lines += _head(name, "histogram", text)
        for number, engine in enumerate(engines):
            labels = {"engine": str(number), "model_name": model_name}
            lines += _histogram(name, labels, pick(engine))
    lines += _cache_config(engines)
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))
    return f"vllm:{name}{{{inside}}} {float(value)!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _histogram(name: str, labels: Mapping[str, str], histogram: Histogram) -> list[str]:
    cumulative = histogram.cumulative()
    buckets = [
        _sample(f"{name}_bucket", {**labels, "le": _edge(edge)}, count)
        for edge, count in zip(histogram.edges, cumulative, strict=True)
    ]
    count = _sample(f"{name}_count", labels, cumulative[-1])
    return [*buckets, count, _sample(f"{name}_sum", labels, histogram.total)]


def _edge(edge: float) -> str:
    return "+Inf" if math.isinf(edge) else repr(float(edge))


def _rejections(engines: Sequence[Engine], model_name: str) -> list[str]:
    # The API server refuses, not an engine: this family alone has no engine label.
    name = "admission_rejections_total"
    refused = sum(engine.counters.rejections for engine in engines)
    return [
        *_head(name, "counter", "Number of admission attempts rejected by a queue limit."),
        _sample(name, {"model_name": model_name, "reason": "max_num_queued_reqs"}, refused),
        _sample(name, {"model_name": model_name, "reason": "max_num_queued_tokens"}, 0),
    ]


def _cache_config(engines: Sequence[Engine]) -> list[str]:
    name = "cache_config_info"
    lines = _head(name, "gauge", "Information of the LLMEngine CacheConfig")
    for number, engine in enumerate(engines):
        labels = {
            "engine": str(number),
            "block_size": str(engine.shape.block_size),
            # vLLM keeps one block to itself.
            "num_gpu_blocks": str(engine.shape.blocks + 1),
        }
        lines.append(_sample(name, labels, 1.0))
    return lines


def _by_sleep_state(engine: Engine) -> Mapping[str, float]:
    asleep = float(engine.asleep)
    return {"awake": 1.0 - asleep, "weights_offloaded": asleep, "discard_all": 0.0}


def _by_finished_reason(engine: Engine) -> Mapping[str, float]:
    # A client that leaves is counted nowhere, as in vLLM.
    never = dict.fromkeys(("length", "abort", "error", "repetition"), 0.0)
    return {"stop": engine.counters.success, **never}


_FAMILIES: tuple[tuple[str, str, str, str, Values], ...] = (
    (
        "num_requests_running",
        "gauge",
        "Number of requests in model execution batches.",
        "",
        lambda e: {"": e.running},
    ),
    (
        "num_requests_waiting",
        "gauge",
        "Number of requests waiting to be processed.",
        "",
        lambda e: {"": e.waiting},
    ),
    (
        "num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason.",
        "reason",
        lambda e: {"capacity": e.waiting, "deferred": 0.0},
    ),
    ("engine_sleep_state", "gauge", "Engine sleep state.", "sleep_state", _by_sleep_state),
    (
        "kv_cache_usage_perc",
        "gauge",
        "KV-cache usage. 1 means 100 percent usage.",
        "",
        lambda e: {"": e.kv_cache_usage},
    ),
    (
        "prefix_cache_queries_total",
        "counter",
        "Prefix cache queries, in tokens.",
        "",
        lambda e: {"": e.counters.prefix_queries},
    ),
    (
        "prefix_cache_hits_total",
        "counter",
        "Prefix cache hits, in tokens.",
        "",
        lambda e: {"": e.counters.prefix_hits},
    ),
    (
        "num_preemptions_total",
        "counter",
        "Cumulative number of preemptions.",
        "",
        lambda e: {"": e.counters.preemptions},
    ),
    (
        "prompt_tokens_total",
        "counter",
        "Number of prefill tokens processed.",
        "",
        lambda e: {"": e.counters.prompt_tokens},
    ),
    (
        "generation_tokens_total",
        "counter",
        "Number of generation tokens processed.",
        "",
        lambda e: {"": e.counters.generation_tokens},
    ),
    (
        "request_success_total",
        "counter",
        "Count of successfully processed requests.",
        "finished_reason",
        _by_finished_reason,
    ),
)

_HISTOGRAMS: tuple[tuple[str, str, Callable[[Engine], Histogram]], ...] = (
    ("time_to_first_token_seconds", "Time to first token.", lambda e: e.counters.ttft),
    ("inter_token_latency_seconds", "Inter-token latency.", lambda e: e.counters.itl),
    ("e2e_request_latency_seconds", "Time of whole requests.", lambda e: e.counters.e2e),
)
