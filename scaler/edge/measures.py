"""What the scaler counts of its own work."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_CALL_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_QUERY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Measures:
    """Counters and durations, on a registry of the scaler's own."""

    def __init__(self) -> None:
        """Start at zero."""
        self.registry = CollectorRegistry(auto_describe=True)
        self.calls = Histogram(
            "vllm_scaler_rpc_duration_seconds",
            "How long unary calls took, by gRPC status code.",
            ("method", "code"),
            buckets=_CALL_SECONDS,
            registry=self.registry,
        )
        self.streams = Gauge(
            "vllm_scaler_rpc_streams",
            "Streams that are open.",
            ("method",),
            registry=self.registry,
        )
        self.ended_streams = Counter(
            "vllm_scaler_rpc_streams_ended",
            "Streams that have ended, by gRPC status code.",
            ("method", "code"),
            registry=self.registry,
        )
        self.queries = Histogram(
            "vllm_scaler_source_duration_seconds",
            "How long a source took to answer for all its workloads, by operation and outcome.",
            ("source", "operation", "outcome"),
            buckets=_QUERY_SECONDS,
            registry=self.registry,
        )
