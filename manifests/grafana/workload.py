"""The dashboard of one workload: signals, thresholds, corridor, count, reasons, and the HPA."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as board

from manifests.grafana.panels import (
    BLUE,
    GREEN,
    GREY,
    LINE_HIGH,
    LINE_LOW,
    ORANGE,
    RED,
    SOURCE,
    Look,
    Query,
    choice,
    empty,
    graph,
    number,
    timeline,
)

_MATCHERS = 'namespace="$namespace", scaled_object="$scaled_object", trigger=~"$trigger"'
_HPA = '{namespace="$namespace", horizontalpodautoscaler="$hpa"}'
_FAULTS = "source_trouble|query_trouble|configuration_fault"
_FOUND = {0: ("not found", GREEN), 1: ("found", RED)}
_MOVES = "scale-out-(queue|concurrency|kv-cache|ttft)"


def _the(metric: str) -> str:
    """Two scalers publish the same workload: the larger value is shown."""
    return f"max(vllm_scaler_{metric}{{{_MATCHERS}}})"


def _line(metric: str, legend: str) -> Query:
    return Query(_the(metric), legend)


def _left(window: str, lasted: str) -> str:
    """How much of a window is still to pass; nothing while its clock does not run."""
    return f"clamp_min({_the(window)} - ({_the(lasted)} > 0), 0)"


def _reason(pattern: str) -> str:
    return f'max by (reason) (vllm_scaler_reason{{{_MATCHERS}, reason=~"{pattern}"}})'


def workload() -> board.Dashboard:
    """Return the dashboard."""
    made = empty(
        "workload",
        "vLLM scaler / workload",
        "One ScaledObject: what was seen, what was decided, why, and what became of it.",
    )
    _variables(made)
    _annotations(made)
    _count(made)
    _signals(made)
    _replicas(made)
    _findings(made)
    _hpa(made)
    _evidence(made)
    return made


def _variables(made: board.Dashboard) -> None:
    of_namespace = 'vllm_scaler_current_replicas{namespace="$namespace"}'
    of_object = (
        'vllm_scaler_current_replicas{namespace="$namespace", scaled_object="$scaled_object"}'
    )
    hpas = 'kube_horizontalpodautoscaler_spec_max_replicas{namespace="$namespace"}'
    for variable in (
        choice("namespace", "Namespace", "label_values(vllm_scaler_current_replicas, namespace)"),
        choice("scaled_object", "ScaledObject", f"label_values({of_namespace}, scaled_object)"),
        choice("trigger", "Trigger", f"label_values({of_object}, trigger)", several=True),
        # The name that KEDA gives it, or the ScaledObject's where the user chose that.
        choice(
            "hpa",
            "HPA",
            f"label_values({hpas}, horizontalpodautoscaler)",
            pattern="/^(keda-hpa-)?${scaled_object}$/",
        ),
    ):
        made.with_variable(variable)


def _annotations(made: board.Dashboard) -> None:
    for name, pattern, colour in (
        ("Scale-out", _MOVES, ORANGE),
        ("Scale-in", "scale-in", BLUE),
        ("At its maximum", "at-max", RED),
        ("Source silent", "source-silent|silent-too-long", GREY),
    ):
        made.annotation(
            board.AnnotationQuery()
            .name(name)
            .datasource(SOURCE)
            .enable(enable=True)
            .icon_color(colour)
            .expr(_reason(pattern))
        )


def _count(made: board.Dashboard) -> None:
    made.with_row(board.Row("The count between its lines"))
    band = {"custom.fillBelowTo": "floor", "custom.fillOpacity": 15}
    corridor = graph(
        "Corridor and count",
        "The count moves only when it is below the floor (what overload has proven to be needed) "
        "or above the ceiling (what calm has proven to be enough). A line that is not proven is "
        "absent.",
        _line("ceiling_replicas", "ceiling"),
        _line("floor_replicas", "floor"),
        _line("current_replicas", "current"),
        _line("desired_replicas", "desired"),
        _line("advised_replicas", "advised"),
        look=Look(
            width=16,
            height=10,
            decimals=0,
            series={
                "ceiling": {**LINE_LOW, **band},
                "floor": LINE_HIGH,
                "current": {"custom.lineWidth": 3, "color": {"mode": "fixed", "fixedColor": BLUE}},
            },
        ),
    )
    need = graph(
        "What the newest sample needs",
        "Before windows, rounding and bounds: at least, and at most, so many replicas.",
        _line("need_low_replicas", "at least"),
        _line("need_high_replicas", "at most"),
        look=Look(width=8, height=10, series={"at least": LINE_HIGH, "at most": LINE_LOW}),
    )
    lasted = graph(
        "How long it has lasted",
        "Overload that lasts through the scale-out window adds replicas; calm that lasts through "
        "the scale-in window gives them up.",
        _line("overload_seconds", "overload"),
        _line("scale_out_window_seconds", "scale-out window"),
        _line("calm_seconds", "calm"),
        _line("scale_in_window_seconds", "scale-in window"),
        look=Look(unit="s", series={"scale-out window": LINE_HIGH, "scale-in window": LINE_LOW}),
    )
    left = graph(
        "Time to sustained",
        "What is left until overload, or calm, has lasted long enough; absent while neither lasts.",
        Query(_left("scale_out_window_seconds", "overload_seconds"), "until scale-out"),
        Query(_left("scale_in_window_seconds", "calm_seconds"), "until scale-in"),
        look=Look(unit="s"),
    )
    reasons = timeline(
        "Reasons",
        "Why the answer was what it was. docs/reference/reasons.md has each.",
        Query(_reason(".+"), "{{reason}}"),
        {1: ("the reason", BLUE)},
    )
    active = timeline(
        "Active",
        "Whether there is work, as KEDA is told. Idle is said only where it is proven: then the "
        "fleet may go to zero. Absent while neither is known.",
        _line("active", "active"),
        {0: ("idle", GREY), 1: ("active", BLUE)},
        height=4,
    )
    for panel in (corridor, need, lasted, left, reasons, active):
        made.with_panel(panel)


def _signals(made: board.Dashboard) -> None:
    made.with_row(board.Row("Signals with their thresholds"))
    series = {"high": LINE_HIGH, "low": LINE_LOW}
    for title, about, unit, signal, high, low in (
        (
            "Waiting requests per replica",
            "Requests that wait for capacity, per serving replica; waitingHigh and waitingLow.",
            "short",
            "waiting_per_replica",
            "waiting_per_replica_high",
            "waiting_per_replica_low",
        ),
        (
            "Time to first token, p95",
            "ttftP95High and ttftP95Low.",
            "s",
            "ttft_p95_seconds",
            "ttft_p95_high_seconds",
            "ttft_p95_low_seconds",
        ),
        (
            "KV cache in use",
            "Mean over the engines; kvCacheHigh and kvCacheLow.",
            "percentunit",
            "kv_cache_ratio",
            "kv_cache_high_ratio",
            "kv_cache_low_ratio",
        ),
    ):
        queries = (_line(signal, "now"), _line(high, "high"), _line(low, "low"))
        look = Look(unit=unit, width=8, series=series)
        made.with_panel(graph(title, about, *queries, look=look))
    made.with_panel(
        graph(
            "Requests",
            "Over all serving replicas. At the gateway: activationQuery, where there is one.",
            _line("waiting_requests", "waiting"),
            _line("running_requests", "running"),
            _line("activation_demand", "at the gateway"),
            look=Look(width=8),
        )
    )
    made.with_panel(
        graph(
            "Flow",
            "First tokens are the rate at which requests are served.",
            _line("first_tokens_per_second", "first tokens"),
            _line("preemptions_per_second", "preemptions"),
            _line("rejections_per_second", "rejections"),
            look=Look(unit="reqps", width=8),
        )
    )
    made.with_panel(
        graph(
            "Tokens",
            "Tokens generated per second.",
            _line("tokens_per_second", "tokens"),
            look=Look(unit="cps", width=8),
        )
    )


def _replicas(made: board.Dashboard) -> None:
    made.with_row(board.Row("Replicas"))
    states = ("serving", "loading", "overdue", "unseen", "stalled", "asleep")
    made.with_panel(
        graph(
            "States",
            "Unseen: known and silent. Stalled: requests, and no token for two minutes. Overdue: "
            "loading for so long that it no longer counts as coming.",
            *(_line(f"{state}_replicas", state) for state in states),
            look=Look(stacked=True, decimals=0),
        )
    )
    made.with_panel(
        graph(
            "Requests that a replica runs",
            "Beside what was learned: what a full replica runs, and what was carried in calm.",
            Query(f"{_the('running_requests')} / ({_the('serving_replicas')} > 0)", "running"),
            _line("saturation_requests", "full"),
            _line("carried_requests", "carried in calm"),
            look=Look(width=8, series={"full": LINE_HIGH, "carried in calm": LINE_LOW}),
        )
    )
    made.with_panel(
        number(
            "Lead time",
            "From a replica's creation to serving.",
            Query(_the("lead_time_seconds")),
            unit="s",
        )
    )


def _findings(made: board.Dashboard) -> None:
    made.with_row(board.Row("Diagnosis"))
    of_kind = "max by (kind) (vllm_scaler_finding{" + _MATCHERS + "%s})"
    memories = 'kind=~"host-oom-kill|device-oom|kv-cache-pressure"'
    made.with_panel(
        timeline(
            "Which memory ran out",
            "The host's, the GPU's, or the KV cache. Only the last is demand: against the first "
            "two more replicas only die alike. docs/how-to/diagnose.md says what to do.",
            Query(of_kind % f", {memories}", "{{kind}}"),
            _FOUND,
            height=5,
        )
    )
    made.with_panel(
        timeline(
            "Findings",
            "A kind that could not be looked at is absent; `scaler diagnose` says why.",
            Query(of_kind % "", "{{kind}}"),
            _FOUND,
            height=12,
        )
    )


def _hpa(made: board.Dashboard) -> None:
    made.with_row(board.Row("What the HPA made of it (needs kube-state-metrics)"))
    bounds = {"minReplicas": LINE_LOW, "maxReplicas": LINE_HIGH}
    hpa = "kube_horizontalpodautoscaler"
    made.with_panel(
        graph(
            "Asked and done",
            "The scaler's answer beside the HPA's own count. They differ for a moment at a change; "
            "where they stay apart, look at tolerance, behavior, bounds and the HPA's conditions.",
            _line("desired_replicas", "the scaler's answer"),
            Query(f"max({hpa}_status_desired_replicas{_HPA})", "HPA: desired"),
            Query(f"max({hpa}_status_current_replicas{_HPA})", "HPA: current"),
            Query(f"max({hpa}_spec_min_replicas{_HPA})", "minReplicas"),
            Query(f"max({hpa}_spec_max_replicas{_HPA})", "maxReplicas"),
            look=Look(width=24, decimals=0, series=bounds),
        )
    )
    true = _HPA.replace("}", ', status="true"}')
    made.with_panel(
        timeline(
            "The HPA's conditions",
            "AbleToScale and ScalingActive should hold; ScalingLimited says that a bound was met.",
            Query(f"max by (condition) ({hpa}_status_condition{true})", "{{condition}}"),
            {0: ("no", GREY), 1: ("yes", BLUE)},
            height=5,
        )
    )


def _evidence(made: board.Dashboard) -> None:
    made.with_row(board.Row("What the answer rests on"))
    made.with_panel(
        graph(
            "Ticks of the windows that have a sample",
            "One missing tick forbids scale-in until it has left the window, and never scale-out.",
            _line("scale_out_coverage_ratio", "scale-out window"),
            _line("scale_in_coverage_ratio", "scale-in window"),
            look=Look(unit="percentunit", most=1),
        )
    )
    made.with_panel(
        graph(
            "Ages",
            "How old the newest sample and the answer are.",
            _line("sample_age_seconds", "sample"),
            _line("decision_age_seconds", "answer"),
            look=Look(unit="s"),
        )
    )
    faults = f'{{__name__=~"vllm_scaler_({_FAULTS})", {_MATCHERS}}}'
    made.with_panel(
        timeline(
            "Trouble",
            "Source: it says nothing of the workload. Query: the trigger's own activationQuery or "
            "rejectionQuery fails. Configuration: it no longer supports the trigger. "
            "`scaler explain` has the error.",
            Query(f"max by (__name__) ({faults})", "{{__name__}}"),
            {0: ("well", GREEN), 1: ("trouble", RED)},
            height=5,
        )
    )
