"""The Prometheus that dashboards and alerts are tried on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.manifests.exported import exported
from tests.prometheus_server import prometheus


@pytest.fixture(scope="session")
def scraped_hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Prometheus that has scraped a scaler for an hour; gives its address."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), exported()) as running:
        yield running
