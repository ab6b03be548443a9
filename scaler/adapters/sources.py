"""Builds the sources that the server's configuration names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.adapters.pod_targets import PodPage, PodsOf, PodTargets
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.config.sections import PrometheusSource as PrometheusSection
from scaler.config.sections import QueriesSection, Section
from scaler.config.sections import ScrapeSource as ScrapeSection
from scaler.control.ports import Clock, Gateways, Source
from scaler.control.source_work import SourceWork


@dataclass(frozen=True, slots=True)
class BuiltSource:
    """A source, how it takes over what a reload may change at once, and whom it asks at zero.

    `work` says what it has asked so far.
    """

    source: Source
    adopt: Callable[[Section], None]
    work: Callable[[], SourceWork]
    gateways: Gateways | None = None


def source_of(
    name: str, section: ScrapeSection | PrometheusSection, clock: Clock, pods: PodsOf = dict
) -> BuiltSource:
    """Build a source; `pods` are its workloads'. Raises TargetsInvalid and what settings refuse."""
    if isinstance(section, PrometheusSection):
        return _prometheus(name, section)
    values = section.model_dump(exclude={"type", "namespaces", "prometheus", "pods"})
    targets: PodTargets | None = None
    if section.pods is not None:
        values["server_name"] = section.pods.server_name
        page = PodPage(**section.pods.model_dump(exclude={"server_name"}))
        targets = PodTargets(page, pods)
    pages = ScrapeSource(ScrapeSettings(name=name, **values), clock, targets)
    if section.prometheus is None:
        return BuiltSource(pages, lambda _: None, pages.work)
    return _queried(name, pages, section.prometheus)


# A scaler that only scrapes need not spend a tenth of a second and 20 MB on the client, so both of
# these import it when they are called.


def _prometheus(name: str, section: PrometheusSection) -> BuiltSource:
    from scaler.adapters.prometheus import PrometheusSource  # noqa: PLC0415
    from scaler.adapters.prometheus_settings import (  # noqa: PLC0415
        PrometheusSettings,
        SeriesLabels,
    )

    values = section.model_dump(exclude={"type", "namespaces", "labels"})
    labels = SeriesLabels(**section.labels.model_dump())
    source = PrometheusSource(PrometheusSettings(name=name, labels=labels, **values))

    def adopt(changed: Section) -> None:
        if isinstance(changed, PrometheusSection):
            source.use_queries(changed.queries)

    return BuiltSource(source, adopt, source.work, source.own_queries)


def _queried(name: str, pages: ScrapeSource, section: QueriesSection) -> BuiltSource:
    from scaler.adapters.own_queries import OwnQueries  # noqa: PLC0415
    from scaler.adapters.prometheus_api import PrometheusApi  # noqa: PLC0415
    from scaler.adapters.prometheus_settings import (  # noqa: PLC0415
        PrometheusSettings,
        SeriesLabels,
    )
    from scaler.adapters.queried_source import QueriedSource  # noqa: PLC0415

    values = section.model_dump(exclude={"labels"})
    labels = SeriesLabels(namespace=section.labels.namespace)
    settings = PrometheusSettings(name=name, labels=labels, **values)
    api = PrometheusApi(settings)
    queries = OwnQueries(settings, api)

    def adopt(changed: Section) -> None:
        if isinstance(changed, ScrapeSection):
            queries.use_queries(changed.queries)

    def work() -> SourceWork:
        return pages.work().beside(api.work())

    return BuiltSource(QueriedSource(pages, api, queries), adopt, work, queries)
