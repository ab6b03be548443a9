"""Writes the dashboards: `python -m manifests.grafana.build`; with --check it only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from manifests.grafana.fleet import fleet
from manifests.grafana.itself import itself
from manifests.grafana.workload import workload

FOLDER = Path(__file__).parent


def dashboards() -> dict[str, str]:
    """Return the dashboards' JSON by file name."""
    return {
        "fleet.json": _written(fleet()),
        "workload.json": _written(workload()),
        "scaler.json": _written(itself()),
    }


def _written(built: Dashboard) -> str:
    made = built.build()
    for number, panel in enumerate(made.panels or [], start=1):
        # Links to a panel outlive a change of the others' order only with a number of its own.
        panel.id_val = number
    return json.dumps(made, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def differing(folder: Path) -> list[str]:
    """Name the files in a folder that are not what would be written."""
    return [
        name
        for name, text in dashboards().items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    if arguments == ["--check"]:
        found = differing(FOLDER)
        if found:
            sys.stderr.write(f"not what the code makes: {', '.join(found)}; run make dashboards\n")
        return 1 if found else 0
    for name, text in dashboards().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
