"""Replica counts from a file: for machines without a cluster, for tests and for the demo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from scaler.adapters.watched_file import WatchedFile
from scaler.control.ports import Clock
from scaler.core.pods import Pod, Situation
from scaler.core.units import Seconds
from scaler.core.workload import MAX_REPLICAS, Scale

LOOKED_AT_EVERY: Seconds = 1.0

_log = structlog.get_logger(__name__)


class ClusterFileInvalid(Exception):
    """The file is not a list of replica counts; the message names every fault."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    namespace: str = Field(min_length=1)
    name: str = Field(min_length=1)
    replicas: int = Field(ge=0, le=MAX_REPLICAS)
    min_replicas: int = Field(default=1, alias="minReplicas", ge=0, le=MAX_REPLICAS)
    max_replicas: int | None = Field(default=None, alias="maxReplicas", ge=1, le=MAX_REPLICAS)
    tolerance: float = Field(default=0.1, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _ordered(self) -> _Row:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(f"maxReplicas {self.max_replicas} is below minReplicas")
        return self

    def scale(self) -> Scale:
        return Scale(
            current=self.replicas,
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            tolerance_out=self.tolerance,
            tolerance_in=self.tolerance,
        )


_ROWS = TypeAdapter(list[_Row])


class FileCluster:
    """Fulfils the port `Cluster` from a YAML list, re-read when the file changes.

    Each item has `namespace`, `name` (the ScaledObject's), `replicas` and optionally
    `minReplicas`, `maxReplicas` and `tolerance` (the HPA's, 0.1 where not given). A faulty edit
    keeps the last valid list and is logged; `fault` shows it.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file once. Raises ClusterFileInvalid."""
        self.fault: str | None = None
        self._file = WatchedFile(path)
        self._clock = clock
        self._notify: Callable[[], None] = lambda: None
        self._file.changed()
        self._scales = read_scales(path)

    def scale(self, namespace: str, name: str) -> Scale | None:
        """Return the count and bounds of a ScaledObject; None where the file has none."""
        return self._scales.get((namespace, name))

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...] | None:
        """Know nothing of pods."""
        del namespace, name
        return None

    def situation(self, namespace: str, name: str) -> Situation | None:
        """Know nothing of KEDA."""
        del namespace, name
        return None

    def is_gone(self, namespace: str, name: str) -> bool:
        """Know nothing of that: the file may name but some of the ScaledObjects."""
        del namespace, name
        return False

    @property
    def faults(self) -> tuple[str, ...]:
        """Return what is wrong with the newest edit of the file."""
        return () if self.fault is None else (self.fault,)

    def on_change(self, notify: Callable[[], None]) -> None:
        """Say whom to tell when a count changed."""
        self._notify = notify

    async def run(self) -> None:
        """Look at the file every second until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now() + LOOKED_AT_EVERY)
            if await asyncio.to_thread(self.look):
                self._notify()

    def look(self) -> bool:
        """Read the file again if it changed, and say whether there are new counts."""
        if not self._file.changed():
            return False
        try:
            self._scales = read_scales(self._file.path)
            self.fault = None
        except ClusterFileInvalid as error:
            self.fault = str(error)
            _log.warning("cluster-file-invalid", error=self.fault)
            return False
        return True


def read_scales(path: Path) -> dict[tuple[str, str], Scale]:
    """Read the list. Raises ClusterFileInvalid with every fault of the file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClusterFileInvalid(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # Also a date that does not exist, digits without end, brackets without end.
        raise ClusterFileInvalid(f"{path}: not YAML: {error}") from error
    try:
        rows = _ROWS.validate_python(content)
    except ValidationError as error:
        faults = [
            f"item {'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise ClusterFileInvalid(f"{path}: {'; '.join(faults)}") from error
    scales: dict[tuple[str, str], Scale] = {}
    for row in rows:
        if (row.namespace, row.name) in scales:
            raise ClusterFileInvalid(f"{path}: {row.namespace}/{row.name} stands in it twice")
        scales[(row.namespace, row.name)] = row.scale()
    return scales
