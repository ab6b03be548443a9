"""The dashboard of all workloads: who is over a threshold, and what is being done about it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as board

from manifests.grafana.panels import UIDS, Look, Query, choice, empty, graph, listing, number

_CHOSEN = '{namespace=~"$namespace"}'
_NAMED = "{{namespace}}/{{scaled_object}}"
_HERE = "max by (namespace, scaled_object)"
"""Two scalers publish the same workload; it is counted once."""


_ONE = (
    f"/d/{UIDS['workload']}?var-datasource=${{datasource}}"
    "&var-namespace=${__data.fields.namespace}&var-scaled_object=${__data.fields.scaled_object}"
)
"""Where a row of the table leads."""


def _each(metric: str) -> str:
    return f"{_HERE} (vllm_scaler_{metric}{_CHOSEN})"


def _against(signal: str, high: str) -> Query:
    share = f"vllm_scaler_{signal}{_CHOSEN} / vllm_scaler_{high}{_CHOSEN}"
    return Query(f"{_HERE} ({share})", _NAMED)


def _with_finding(kind: str) -> Query:
    found = f'vllm_scaler_finding{{namespace=~"$namespace", kind="{kind}"}}'
    return Query(f"sum({_HERE} ({found}))", kind)


def fleet() -> board.Dashboard:
    """Return the dashboard."""
    made = empty(
        "fleet",
        "vLLM scaler / fleet",
        "All workloads: their counts, how near each is to its thresholds, and what is wrong.",
    ).with_variable(
        choice(
            "namespace",
            "Namespace",
            "label_values(vllm_scaler_current_replicas, namespace)",
            several=True,
        )
    )
    _glance(made)
    _workloads(made)
    _signals(made)
    _reasons(made)
    return made


def _glance(made: board.Dashboard) -> None:
    made.with_row(board.Row("At a glance"))
    for panel in (
        number(
            "Workloads",
            "ScaledObjects that ask the scaler, and those that it watches.",
            Query(f"count({_each('decision_age_seconds')})"),
        ),
        number(
            "Replicas",
            "What all scale targets ask for together.",
            Query(f"sum({_each('current_replicas')})"),
        ),
        number(
            "Replicas wanted",
            "What the scaler answers for all workloads together.",
            Query(f"sum({_each('desired_replicas')})"),
        ),
        number(
            "At their maximum",
            "Workloads whose demand needs more than maxReplicaCount allows.",
            _with_finding("at-max"),
            bad_from=1,
        ),
        number(
            "Without a reading",
            "Workloads of which the source can say nothing at present: their counts are held.",
            Query(f"sum({_each('source_trouble')})"),
            bad_from=1,
        ),
        number(
            "Host out of memory",
            "Workloads with a container that the host killed within the last hour. Not demand.",
            _with_finding("host-oom-kill"),
            bad_from=1,
        ),
    ):
        made.with_panel(panel)


def _workloads(made: board.Dashboard) -> None:
    made.with_row(board.Row("Workloads"))
    reason = f"max by (namespace, scaled_object, reason) (vllm_scaler_reason{_CHOSEN})"
    made.with_panel(
        listing(
            "Every workload now",
            "Follow a name to its own dashboard. A value that is not known is left empty.",
            {
                "reason": Query(reason),
                "current": Query(_each("current_replicas")),
                "desired": Query(_each("desired_replicas")),
                "floor": Query(_each("floor_replicas")),
                "ceiling": Query(_each("ceiling_replicas")),
                "serving": Query(_each("serving_replicas")),
                "seconds overloaded": Query(_each("overload_seconds")),
            },
            {
                "scaled_object": (
                    "Open this workload",
                    _ONE,
                )
            },
        )
    )
    made.with_panel(
        graph(
            "Replicas of each workload",
            "What each scale target asks for.",
            Query(_each("current_replicas"), _NAMED),
            look=Look(stacked=True, decimals=0),
        )
    )
    made.with_panel(
        graph(
            "Advice less what there is",
            "Above zero: the scaler would have asked for more replicas; below: for fewer. It stays "
            "away from zero where something else scales the workload, and the scaler only advises.",
            Query(_each("advised_difference_replicas"), _NAMED),
            look=Look(decimals=0),
        )
    )
    made.with_panel(
        graph(
            "Replicas that do not serve",
            "Loading, unseen, stalled or asleep. Loading is usual after a scale-out.",
            *(
                Query(f"sum({_each(f'{state}_replicas')})", state)
                for state in ("loading", "unseen", "stalled", "asleep")
            ),
            look=Look(stacked=True, decimals=0),
        )
    )


def _signals(made: board.Dashboard) -> None:
    made.with_row(board.Row("Signals as a share of the upper threshold: above 100 % is overload"))
    look = Look(unit="percentunit", width=8)
    for title, about, query in (
        (
            "Waiting requests",
            "Requests that wait for capacity per serving replica, over waitingHigh.",
            _against("waiting_per_replica", "waiting_per_replica_high"),
        ),
        (
            "Time to first token",
            "TTFT p95 over ttftP95High.",
            _against("ttft_p95_seconds", "ttft_p95_high_seconds"),
        ),
        (
            "KV cache",
            "Used share of the KV cache over kvCacheHigh.",
            _against("kv_cache_ratio", "kv_cache_high_ratio"),
        ),
    ):
        made.with_panel(graph(title, about, query, look=look))


def _reasons(made: board.Dashboard) -> None:
    made.with_row(board.Row("Why, and what is wrong"))
    reason = f"max by (namespace, scaled_object, reason) (vllm_scaler_reason{_CHOSEN})"
    finding = f"max by (namespace, scaled_object, kind) (vllm_scaler_finding{_CHOSEN})"
    decisions = f"vllm_scaler_decisions_total{_CHOSEN}"
    for panel in (
        graph(
            "Workloads by reason",
            "docs/reference/reasons.md says what each means and what helps.",
            Query(f"count by (reason) ({reason})", "{{reason}}"),
            look=Look(width=8, stacked=True, decimals=0),
        ),
        graph(
            "Workloads by finding",
            "docs/how-to/diagnose.md says what each rests on and what to do.",
            Query(f"sum by (kind) ({finding})", "{{kind}}"),
            look=Look(width=8, stacked=True, decimals=0),
        ),
        graph(
            "Changed answers",
            "Answers that differ from the one before, per minute. Each scaler counts its own.",
            Query(f"sum by (reason) (rate({decisions}[$__rate_interval])) * 60", "{{reason}}"),
            look=Look(width=8, stacked=True),
        ),
    ):
        made.with_panel(panel)
