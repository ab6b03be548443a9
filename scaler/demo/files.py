"""The two files through which the scaler sees the demo: where replicas are, and how many."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from scaler.demo.scene import Scene


class FleetFiles:
    """Writes Prometheus' file_sd targets and the counts, each in one move and only on a change."""

    def __init__(self, directory: Path, scene: Scene) -> None:
        """Name the files; nothing is written yet."""
        self.targets = directory / "targets.json"
        self.cluster = directory / "cluster.yaml"
        self._scene = scene
        self._written: dict[Path, str] = {}

    def write(self, addresses: Mapping[str, str], replicas: int) -> None:
        """Say where each pod is (host:port by its name) and how many replicas are wanted."""
        self._replace(self.targets, json.dumps(self._groups(addresses), indent=2) + "\n")
        self._replace(self.cluster, yaml.safe_dump(self._counts(replicas), sort_keys=False))

    def _groups(self, addresses: Mapping[str, str]) -> Sequence[Mapping[str, object]]:
        return [
            {
                "targets": [address],
                "labels": {
                    "namespace": self._scene.namespace,
                    "pod": pod,
                    "app": self._scene.name,
                },
            }
            for pod, address in sorted(addresses.items())
        ]

    def _counts(self, replicas: int) -> list[dict[str, object]]:
        scene = self._scene
        return [
            {
                "namespace": scene.namespace,
                "name": scene.name,
                "replicas": replicas,
                "minReplicas": scene.min_replicas,
                "maxReplicas": scene.max_replicas,
                "tolerance": 0.0,
            }
        ]

    def _replace(self, path: Path, text: str) -> None:
        if self._written.get(path) == text:
            return
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        self._written[path] = text
