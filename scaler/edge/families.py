"""The names, meanings and labels of the scaler's own metrics, but for those of each workload."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "vllm_scaler_"
WORKLOAD_LABELS = ("namespace", "scaled_object", "trigger")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family; counters are named without `_total`, which the exposition adds."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()


CALLS = Family(
    f"{PREFIX}rpc_duration_seconds",
    "histogram",
    "How long unary calls took, by gRPC status code.",
    ("method", "code"),
)
STREAMS = Family(f"{PREFIX}rpc_streams", "gauge", "Streams that are open.", ("method",))
ENDED_STREAMS = Family(
    f"{PREFIX}rpc_streams_ended",
    "counter",
    "Streams that have ended, by gRPC status code.",
    ("method", "code"),
)
QUERIES = Family(
    f"{PREFIX}source_duration_seconds",
    "histogram",
    "How long a source took to answer for all its workloads, by operation and outcome.",
    ("source", "operation", "outcome"),
)
BUILD = Family(f"{PREFIX}build_info", "gauge", "1, with the scaler's version.", ("version",))
REASON = Family(
    f"{PREFIX}reason",
    "gauge",
    "1 for the reason of the present answer.",
    (*WORKLOAD_LABELS, "reason"),
)
FINDING = Family(
    f"{PREFIX}finding",
    "gauge",
    "1 while a kind of finding is found of the workload, 0 while it is not; absent where it is "
    "not known. docs/how-to/diagnose.md says what to do about each.",
    (*WORKLOAD_LABELS, "kind"),
)
WORKLOADS = Family(f"{PREFIX}workloads", "gauge", "Workloads that are registered.")
UNRESOLVED = Family(
    f"{PREFIX}unresolved_workloads",
    "gauge",
    "Workloads that the server's configuration does not support.",
)
DECISIONS = Family(
    f"{PREFIX}decisions",
    "counter",
    "Answers that differ from the one before, by reason.",
    ("namespace", "scaled_object", "reason"),
)
TICKS = Family(f"{PREFIX}source_ticks", "counter", "Ticks that were sampled.", ("source",))
FAILED_TICKS = Family(
    f"{PREFIX}source_failed_ticks",
    "counter",
    "Ticks at which the source failed for all its workloads.",
    ("source",),
)
COVERAGE = Family(
    f"{PREFIX}source_coverage_ratio",
    "gauge",
    "Share of the source's selections that it knew something of at the newest tick.",
    ("source",),
)
AGE = Family(
    f"{PREFIX}source_age_seconds",
    "gauge",
    "Time since the source last said anything; absent while it never did.",
    ("source",),
)
_REQUEST = ("source", "request")
REQUESTS = Family(
    f"{PREFIX}source_requests",
    "counter",
    "Requests of a source that have ended, by kind (`scrape`, or what a query asks for) and "
    "outcome (`ok`, or the kind of error). One with its retries counts once.",
    (*_REQUEST, "outcome"),
)
RETRIES = Family(
    f"{PREFIX}source_request_retries", "counter", "Attempts after a request's first.", _REQUEST
)
PARTIAL = Family(
    f"{PREFIX}source_partial_answers",
    "counter",
    "Answers with a warning that something may be missing in them.",
    _REQUEST,
)
REQUEST_SECONDS = Family(
    f"{PREFIX}source_request_seconds",
    "counter",
    "How long the requests took, retries included, added up.",
    _REQUEST,
)
RECEIVED = Family(
    f"{PREFIX}source_received_bytes", "counter", "Bytes of the answers, decompressed.", ("source",)
)
TARGETS = Family(f"{PREFIX}source_targets", "gauge", "Targets that a source scrapes.", ("source",))
FAILING_TARGETS = Family(
    f"{PREFIX}source_failing_targets",
    "gauge",
    "Targets whose newest scrape failed.",
    ("source",),
)
SOURCE_FAULT = Family(
    f"{PREFIX}source_fault",
    "gauge",
    "1 while the list of targets, or a file with secrets, cannot be read and what was read before "
    "stays in force, 0 otherwise.",
    ("source", "fault"),
)

COUNTED = (CALLS, STREAMS, ENDED_STREAMS, QUERIES)
READ = (
    BUILD,
    REASON,
    FINDING,
    WORKLOADS,
    UNRESOLVED,
    DECISIONS,
    TICKS,
    FAILED_TICKS,
    COVERAGE,
    AGE,
    REQUESTS,
    RETRIES,
    PARTIAL,
    REQUEST_SECONDS,
    RECEIVED,
    TARGETS,
    FAILING_TARGETS,
    SOURCE_FAULT,
)
