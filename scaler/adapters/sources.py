"""Builds the sources that the server's configuration names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.config.sections import PrometheusSource as PrometheusSection
from scaler.config.sections import ScrapeSource as ScrapeSection
from scaler.config.sections import Section
from scaler.control.ports import Clock, Source


@dataclass(frozen=True, slots=True)
class BuiltSource:
    """A source, and how it takes over what a reload may change of it at once."""

    source: Source
    adopt: Callable[[Section], None]


def source_of(name: str, section: ScrapeSection | PrometheusSection, clock: Clock) -> BuiltSource:
    """Build a source. Raises TargetsInvalid and what its settings refuse."""
    if isinstance(section, ScrapeSection):
        settings = ScrapeSettings(name=name, **section.model_dump(exclude={"type"}))
        return BuiltSource(ScrapeSource(settings, clock), lambda _: None)
    return _prometheus(name, section)


def _prometheus(name: str, section: PrometheusSection) -> BuiltSource:
    # A scaler that only scrapes need not spend a tenth of a second and 20 MB on this client.
    from scaler.adapters.prometheus import PrometheusSource  # noqa: PLC0415
    from scaler.adapters.prometheus_settings import (  # noqa: PLC0415
        PrometheusSettings,
        SeriesLabels,
    )

    values = section.model_dump(exclude={"type", "labels"})
    labels = SeriesLabels(**section.labels.model_dump())
    source = PrometheusSource(PrometheusSettings(name=name, labels=labels, **values))

    def adopt(changed: Section) -> None:
        if isinstance(changed, PrometheusSection):
            source.use_queries(changed.queries)

    return BuiltSource(source, adopt)
