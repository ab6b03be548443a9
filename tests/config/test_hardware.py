"""Utilisation is refused by what a name measures, never by what a label says."""

from __future__ import annotations

import pytest

from scaler.config.hardware import (
    KNOWN_METRICS,
    first_hardware_metric,
    key_asks_for_hardware,
    measures_hardware,
)
from scaler.config.promql import parse_query, selectors


@pytest.mark.parametrize(
    "metric",
    [
        *KNOWN_METRICS,
        "DCGM_FI_DEV_ENC_UTIL",
        "dcgm_gpu_utilization",
        "container_cpu_cfs_throttled_seconds_total",
        "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate",
        "instance:node_cpu_utilisation:rate5m",
        "kubernetes_io:container_accelerator_duty_cycle",
        "nvidia_gpu_utilization",
        "windows_cpu_time_total",
        "cpu_usage_percent",
    ],
)
def test_utilisation_is_known(metric: str) -> None:
    """Under the names that exporters and recording rules give it."""
    assert measures_hardware(metric)


@pytest.mark.parametrize(
    "metric",
    [
        "vllm:gpu_cache_usage_perc",
        "vllm:cpu_cache_usage_perc",
        "vllm:kv_cache_usage_perc",
        "vllm_gpu_cache_usage_perc",
        "ray_vllm_gpu_cache_usage_perc",
        "job:vllm:gpu_cache_usage_perc:mean",
        "vllm:num_requests_waiting",
        "vllm:estimated_flops_per_gpu_total",
        "kube_pod_container_resource_requests_cpu_cores",
        "queue_utilization",
        "active_requests",
        "cpunks_total",
    ],
)
def test_demand_is_not_utilisation(metric: str) -> None:
    """The engine's own cache and names that merely contain the letters are free."""
    assert not measures_hardware(metric)


@pytest.mark.parametrize(
    ("query", "metric"),
    [
        ("avg(DCGM_FI_DEV_GPU_UTIL)", "DCGM_FI_DEV_GPU_UTIL"),
        ("queue + on() sum(rate(container_cpu_usage_seconds_total[5m]))", KNOWN_METRICS[8]),
        ("max_over_time(avg(DCGM_FI_PROF_SM_ACTIVE)[5m:30s])", "DCGM_FI_PROF_SM_ACTIVE"),
        ('{__name__="DCGM_FI_DEV_GPU_UTIL"}', "DCGM_FI_DEV_GPU_UTIL"),
        ('{__name__=~"DCGM_.*_SM_ACTIVE"}', "DCGM_FI_PROF_SM_ACTIVE"),
        ('{__name__=~".*cpu.*",app="x"}', "container_cpu_usage_seconds_total"),
        ('{__name__=~"node_cpu_.*",__name__!~".*_total"}', None),
        ('sum(queue{app="node_cpu_seconds_total",pod="gpu-util"})', None),
        ('{__name__=~"vllm:.*"}', None),
        ('{job="dcgm-exporter"}', None),
        ("sum(vllm:gpu_cache_usage_perc)", None),
    ],
)
def test_queries(query: str, metric: str | None) -> None:
    """Every selector of a query is looked at, wherever it stands."""
    assert first_hardware_metric(selectors(parse_query(query))) == metric


@pytest.mark.parametrize(
    ("key", "asks"),
    [
        ("gpuUtilization", True),
        ("gpu_utilization", True),
        ("GPUUtilisationHigh", True),
        ("cpuThreshold", True),
        ("cpu", True),
        ("smActive", True),
        ("SMOccupancy", True),
        ("targetCPUUtilizationPercentage", True),
        ("dcgmTarget", True),
        ("kvCacheHigh", False),
        ("gpuCacheUsageHigh", False),
        ("smoothing", False),
        ("waitingHihg", False),
        ("", False),
    ],
)
def test_keys(key: str, asks: bool) -> None:  # noqa: FBT001
    """Keys are judged word by word."""
    assert key_asks_for_hardware(key) is asks
