"""Builds the cluster that the server's configuration names."""

from __future__ import annotations

from pathlib import Path

from scaler.adapters.cluster_file import FileCluster
from scaler.config.sections import KubernetesSection
from scaler.control.ports import Clock, Cluster, DeletionCosts, Notices


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

    settings = KubernetesSettings(**section.model_dump(exclude={"events", "deletion_cost"}))
    find_access(settings)
    return KubernetesCluster(settings, clock)


def notices_of(cluster: Cluster | None, section: KubernetesSection) -> Notices | None:
    """Return where findings are told; None where there is no such place, or it is not wanted."""
    if cluster is None or isinstance(cluster, FileCluster) or not section.events:
        return None
    from scaler.adapters.kubernetes_cluster import KubernetesCluster  # noqa: PLC0415
    from scaler.adapters.kubernetes_events import KubernetesEvents  # noqa: PLC0415

    return KubernetesEvents(cluster.api) if isinstance(cluster, KubernetesCluster) else None


def deletion_costs_of(cluster: Cluster | None) -> DeletionCosts | None:
    """Return where deletion costs are written; None where there is no such place."""
    if cluster is None or isinstance(cluster, FileCluster):
        return None
    from scaler.adapters.kubernetes_cluster import KubernetesCluster  # noqa: PLC0415
    from scaler.adapters.kubernetes_deletion_cost import KubernetesDeletionCosts  # noqa: PLC0415

    if not isinstance(cluster, KubernetesCluster):
        return None
    return KubernetesDeletionCosts(cluster.api, cluster.settings, cluster.pods_in)
