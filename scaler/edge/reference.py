"""The reference pages that are written from the code: `python -m scaler.edge.reference FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from scaler.core.reasons import EXPLANATIONS
from scaler.edge.families import COUNTED, READ, Family
from scaler.edge.gauges import WORKLOAD_GAUGES

_WRITTEN = "<!-- Written by python -m scaler.edge.reference docs/reference; edits are lost. -->"
_ABOUT_METRICS = (
    "Served on `/metrics` of the HTTP port. A value that is not known is absent; it is never 0. "
    "`trigger` is a digest of the trigger's metadata: it tells two triggers of one ScaledObject "
    "apart and changes when the trigger is edited. Beside these there are the usual `process_…` "
    "metrics."
)
_ABOUT_REASONS = (
    "Every answer carries one of these words: in logs, in metrics, in KEDA's events and in "
    "`scaler explain`."
)


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {"metrics.md": _metrics(), "reasons.md": _reasons()}


def _metrics() -> str:
    workload = [gauge.family for gauge in WORKLOAD_GAUGES]
    return "\n".join(
        [
            "# The scaler's own metrics",
            "",
            _WRITTEN,
            "",
            _ABOUT_METRICS,
            "",
            "## Of each workload",
            "",
            *_table(workload),
            "",
            "## Of the scaler",
            "",
            *_table([*READ, *COUNTED]),
            "",
        ]
    )


def _table(families: Iterable[Family]) -> list[str]:
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        rows.append(f"| `{name}` | {family.kind} | {labels} | {family.meaning} |")
    return rows


def _reasons() -> str:
    rows = [
        f"| `{reason.value}` | {told.meaning} | {told.cure} |"
        for reason, told in EXPLANATIONS.items()
    ]
    return "\n".join(
        [
            "# Reasons",
            "",
            _WRITTEN,
            "",
            _ABOUT_REASONS,
            "",
            "| reason | what it means | what helps |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
