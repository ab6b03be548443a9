"""A real Prometheus on a history that a test writes down: every value can be checked by hand."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

Points = Mapping[float, float]


@dataclass
class Past:
    """Series to be backfilled: by name and labels, (time, value) points."""

    series: dict[tuple[str, tuple[tuple[str, str], ...]], dict[float, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, name: str, labels: Mapping[str, str], points: Points) -> None:
        """Add points to a series."""
        self.series[name, tuple(sorted(labels.items()))].update(points)

    def add_page(self, page: str, labels: Mapping[str, str], times: list[float]) -> None:
        """Let a page of an engine stand at each of these times, as a scraper would store it."""
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name.startswith("vllm:") and not sample.name.endswith("_created"):
                    self.add(
                        sample.name, {**sample.labels, **labels}, dict.fromkeys(times, sample.value)
                    )

    def text(self) -> str:
        """Write OpenMetrics, which promtool makes blocks of."""
        lines, last = [], ""
        for (name, labels), points in sorted(self.series.items()):
            if name != last:
                lines.append(f"# TYPE {name} unknown")
                last = name
            told = ",".join(f'{key}="{value}"' for key, value in labels)
            lines += [f"{name}{{{told}}} {value} {at:.3f}" for at, value in sorted(points.items())]
        return "\n".join([*lines, "# EOF", ""])


@contextmanager
def prometheus(
    directory: Path, past: Past, config: str = "global: {scrape_interval: 1h}\n"
) -> Iterator[str]:
    """Run a Prometheus that remembers `past` and scrapes as `config` says; gives its address."""
    history, data = directory / "past.txt", directory / "data"
    history.write_text(past.text(), encoding="utf-8")
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(history), str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    configured = directory / "prometheus.yml"
    configured.write_text(config, encoding="utf-8")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    with (directory / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(
            [
                shutil.which("prometheus") or "prometheus",
                f"--config.file={configured}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            _wait(server, f"http://{address}/-/ready", directory / "prometheus.log")
            yield f"http://{address}"
        finally:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    while True:
        assert server.poll() is None, log.read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own
                if answer.status == 200:
                    return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.05)
