"""The dashboard of the scaler itself: whether it ticks, hears its sources and answers KEDA."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as board

from manifests.grafana.panels import (
    GREEN,
    RED,
    Look,
    Query,
    choice,
    empty,
    graph,
    number,
    timeline,
)

_OURS = '{instance=~"$instance"}'
_FAILED = '{instance=~"$instance", outcome!="ok"}'
_BY_SOURCE = "{{source}} at {{instance}}"
_EXACTLY = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))


def _of_process(metric: str) -> str:
    """The process metrics have no name of ours: those of a target that is a scaler count."""
    return f"{metric}{_OURS} and on (job, instance) vllm_scaler_build_info"


def _quantiles(histogram: str, by: str, legend: str) -> list[Query]:
    rates = f"sum by ({by}, le) (rate({histogram}_bucket{_OURS}[$__rate_interval]))"
    # Without observations it is NaN, which is no duration at all.
    return [
        Query(f"histogram_quantile({share}, {rates}) >= 0", f"{legend} {name}")
        for share, name in _EXACTLY
    ]


def itself() -> board.Dashboard:
    """Return the dashboard."""
    made = empty(
        "scaler",
        "vLLM scaler / scaler",
        "The scaler itself: ticks, sources, calls from KEDA, and memory.",
    ).with_variable(
        choice("instance", "Scaler", "label_values(vllm_scaler_build_info, instance)", several=True)
    )
    _glance(made)
    _ticks(made)
    _sources(made)
    _requests(made)
    _calls(made)
    _process(made)
    return made


def _glance(made: board.Dashboard) -> None:
    made.with_row(board.Row("At a glance"))
    apart = [
        f"{end} by (namespace, scaled_object, trigger) (vllm_scaler_desired_replicas{_OURS})"
        for end in ("max", "min")
    ]
    for panel in (
        number("Scalers", "Processes that report.", Query(f"count(vllm_scaler_build_info{_OURS})")),
        number(
            "Workloads",
            "Workloads that are registered at the scaler with the most.",
            Query(f"max(vllm_scaler_workloads{_OURS})"),
        ),
        number(
            "Unresolved",
            "Workloads whose trigger the server's configuration does not support.",
            Query(f"max(vllm_scaler_unresolved_workloads{_OURS})"),
            bad_from=1,
        ),
        number(
            "Configuration faults",
            "Workloads whose trigger the configuration no longer supports; the last policy stays.",
            Query(
                f"sum(max by (namespace, scaled_object) (vllm_scaler_configuration_fault{_OURS}))"
            ),
            bad_from=1,
        ),
        number(
            "Scalers at variance",
            "The largest difference between two scalers' answers for one workload. They agree on "
            "one history; a difference that stays means that they see different ones.",
            Query(f"max({apart[0]} - {apart[1]})"),
            bad_from=1,
        ),
        number(
            "Oldest answer",
            "A tick comes every 15 s.",
            Query(f"max(vllm_scaler_decision_age_seconds{_OURS})"),
            unit="s",
            bad_from=60,
        ),
    ):
        made.with_panel(panel)


def _ticks(made: board.Dashboard) -> None:
    made.with_row(board.Row("Ticks"))
    ticks, failed = (
        f"vllm_scaler_source_{kind}_total{_OURS}" for kind in ("ticks", "failed_ticks")
    )
    for panel in (
        graph(
            "Ticks per minute",
            "Four are due for each source.",
            Query(f"sum by (source, instance) (rate({ticks}[$__rate_interval])) * 60", _BY_SOURCE),
        ),
        graph(
            "Failed ticks per minute",
            "Ticks at which a source failed for all its workloads.",
            Query(f"sum by (source, instance) (rate({failed}[$__rate_interval])) * 60", _BY_SOURCE),
        ),
        graph(
            "Coverage",
            "Share of a source's selections of which it knew something at the newest tick.",
            Query(
                f"max by (source, instance) (vllm_scaler_source_coverage_ratio{_OURS})", _BY_SOURCE
            ),
            look=Look(unit="percentunit", most=1),
        ),
        graph(
            "Since the source last said anything",
            "Absent for a source that never did.",
            Query(f"max by (source, instance) (vllm_scaler_source_age_seconds{_OURS})", _BY_SOURCE),
            look=Look(unit="s"),
        ),
    ):
        made.with_panel(panel)


def _sources(made: board.Dashboard) -> None:
    made.with_row(board.Row("Reading the sources"))
    taken = "vllm_scaler_source_duration_seconds"
    made.with_panel(
        graph(
            "How long a read takes",
            "For all workloads of a source; read is each tick's, recall reads history back.",
            *_quantiles(taken, "source, operation", "{{source}} {{operation}}"),
            look=Look(unit="s", width=8),
        )
    )
    for title, about, chosen in (
        ("Reads by outcome", "ok, or the kind of error.", _OURS),
        (
            "Errors",
            "Reads that did not end well. mixed: several kinds in one read; cut-off: no answer.",
            _FAILED,
        ),
    ):
        rates = (
            f"sum by (source, operation, outcome) (rate({taken}_count{chosen}[$__rate_interval]))"
        )
        query = Query(f"{rates} * 60", "{{source}} {{operation}} {{outcome}}")
        look = Look(width=8, stacked=True)
        made.with_panel(graph(f"{title}, per minute", about, query, look=look))


def _requests(made: board.Dashboard) -> None:
    made.with_row(board.Row("What the sources ask of others"))
    for title, about, chosen in (
        (
            "Requests",
            "Scrapes, or queries by what they ask for; one with its retries is one.",
            _OURS,
        ),
        ("Failed requests", "By the kind of error, after the last retry.", _FAILED),
    ):
        rates = _summed("requests", "source, request, outcome", chosen)
        query = Query(f"{rates} * 60", "{{source}} {{request}} {{outcome}}")
        look = Look(width=8, stacked=True)
        made.with_panel(graph(f"{title}, per minute", about, query, look=look))
    by = "source, request"
    retries, partial, seconds, ended = (
        _summed(counter, by)
        for counter in ("request_retries", "partial_answers", "request_seconds", "requests")
    )
    made.with_panel(
        graph(
            "Retries and partial answers, per minute",
            "Retries: attempts after a request's first. Partial: the other side warns that "
            "something may be missing in its answer.",
            Query(f"{retries} * 60", "{{source}} {{request}} retries"),
            Query(f"{partial} * 60", "{{source}} {{request}} partial"),
            look=Look(width=8),
        )
    )
    made.with_panel(
        graph(
            "How long a request takes",
            "On the average, retries included.",
            Query(f"{seconds} / ({ended} > 0)", "{{source}} {{request}}"),
            look=Look(unit="s", width=8),
        )
    )
    _received(made)


def _received(made: board.Dashboard) -> None:
    of_source = "max by (source, instance) (vllm_scaler_source_%s" + _OURS + ")"
    unread = f"max by (source, fault) (vllm_scaler_source_fault{_OURS})"
    for panel in (
        graph(
            "Received",
            "Bytes of the answers per second, decompressed.",
            Query(_summed("received_bytes", "source, instance"), _BY_SOURCE),
            look=Look(unit="Bps", width=8),
        ),
        graph(
            "Targets",
            "Of a source that scrapes: how many it knows, and of how many the newest scrape "
            "failed.",
            Query(of_source % "targets", f"{_BY_SOURCE}: known"),
            Query(of_source % "failing_targets", f"{_BY_SOURCE}: failing"),
            look=Look(width=8, decimals=0),
        ),
        timeline(
            "Files of the sources",
            "The list of targets, or a file with secrets. One that cannot be read leaves in force "
            "what was read before.",
            Query(unread, "{{source}} {{fault}}"),
            {0: ("read", GREEN), 1: ("cannot be read", RED)},
            height=5,
        ),
    ):
        made.with_panel(panel)


def _summed(counter: str, by: str, chosen: str = _OURS) -> str:
    rates = f"rate(vllm_scaler_source_{counter}_total{chosen}[$__rate_interval])"
    return f"sum by ({by}) ({rates})"


def _calls(made: board.Dashboard) -> None:
    made.with_row(board.Row("Calls from KEDA"))
    calls = "vllm_scaler_rpc_duration_seconds"
    ended = f"vllm_scaler_rpc_streams_ended_total{_OURS}"
    for panel in (
        graph(
            "How long a call takes",
            "Unary calls, by method.",
            *_quantiles(calls, "method", "{{method}}"),
            look=Look(unit="s"),
        ),
        graph(
            "Calls per second",
            "By method and gRPC status code.",
            Query(
                f"sum by (method, code) (rate({calls}_count{_OURS}[$__rate_interval]))",
                "{{method}} {{code}}",
            ),
            look=Look(unit="reqps", stacked=True),
        ),
        graph(
            "Open streams",
            "One from each KEDA operator for each trigger.",
            Query(f"sum by (method, instance) (vllm_scaler_rpc_streams{_OURS})", "{{instance}}"),
            look=Look(decimals=0),
        ),
        graph(
            "Ended streams per minute",
            "By gRPC status code.",
            Query(f"sum by (code) (rate({ended}[$__rate_interval])) * 60", "{{code}}"),
        ),
    ):
        made.with_panel(panel)


def _process(made: board.Dashboard) -> None:
    made.with_row(board.Row("The process"))
    for title, about, metric, unit in (
        (
            "Resident memory",
            "Grows with the workloads and their windows, then stays.",
            "process_resident_memory_bytes",
            "bytes",
        ),
        ("Open files", "Connections included.", "process_open_fds", "short"),
    ):
        query = Query(_of_process(metric), "{{instance}}")
        made.with_panel(graph(title, about, query, look=Look(unit=unit, width=8)))
    made.with_panel(
        graph(
            "Up since",
            "A drop is a restart.",
            Query(f"time() - ({_of_process('process_start_time_seconds')})", "{{instance}}"),
            look=Look(unit="s", width=8),
        )
    )
