"""Builds the cluster that the server's configuration names."""

from __future__ import annotations

from pathlib import Path

from scaler.adapters.cluster_file import FileCluster
from scaler.config.sections import KubernetesSection
from scaler.control.ports import Clock, Cluster


def cluster_of(
    named: Path | str | None, section: KubernetesSection, clock: Clock
) -> Cluster | None:
    """Build a cluster; None where none is named. Raises ClusterFileInvalid and AccessInvalid."""
    if named is None:
        return None
    if isinstance(named, Path):
        return FileCluster(named, clock)
    # Whoever has no cluster need not spend memory on its adapter.
    from scaler.adapters.kubernetes_access import find_access  # noqa: PLC0415
    from scaler.adapters.kubernetes_cluster import KubernetesCluster  # noqa: PLC0415
    from scaler.adapters.kubernetes_settings import KubernetesSettings  # noqa: PLC0415

    settings = KubernetesSettings(**section.model_dump())
    find_access(settings)
    return KubernetesCluster(settings, clock)
