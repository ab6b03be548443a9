"""What a load test came to, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

from scaler.cli.load_plan import Run
from scaler.simulation.outcomes import Outcomes
from scaler.simulation.report import Cell, Format, aligned
from scaler.simulation.requests import Ending

_LABELS = {
    "slo_attainment": "SLO attainment",
    "ttft_p50": "TTFT p50",
    "ttft_p95": "TTFT p95",
    "ttft_p99": "TTFT p99",
    "tpot_p95": "TPOT p95",
}


def row(run: Run) -> dict[str, Cell]:
    """Return the columns of the CSV, named as the simulator's. Seconds; None where not known.

    `prompt_ratio` is the server's count of prompt tokens over the planned one, `output_ratio` the
    output tokens of served requests over those that they asked for.
    """
    ledger, outcomes = run.ledger, run.ledger.outcomes
    return {
        **judged(outcomes),
        "rejected": outcomes.ended[Ending.REJECTED],
        "cut_off": outcomes.ended[Ending.CUT_OFF],
        "given_up": outcomes.ended[Ending.GIVEN_UP],
        "unfinished": ledger.unfinished,
        "arrived": outcomes.arrived,
        "served": outcomes.ended[Ending.SERVED],
        "unsent": ledger.unsent,
        "too_long": ledger.too_long,
        "warming": ledger.warming,
        "output_tokens": outcomes.tokens,
        "prompt_ratio": _ratio(ledger.counted_prompt, ledger.asked_prompt),
        "output_ratio": _ratio(outcomes.tokens, ledger.asked_output),
        "late_p99": rounded(ledger.late.quantile(0.99)),
        "late_max": rounded(ledger.most_late),
        "elapsed": round(run.elapsed, 3),
        "kinds": ";".join(f"{kind}={count}" for kind, count in sorted(ledger.kinds.items())),
        "model": run.model,
        "scenario": run.scenario,
    }


def judged(outcomes: Outcomes) -> dict[str, Cell]:
    """Return the attainment and the latencies, as the simulator has them."""
    return {
        "slo_attainment": rounded(outcomes.slo_attainment),
        "ttft_p50": rounded(outcomes.ttft.quantile(0.5)),
        "ttft_p95": rounded(outcomes.ttft.quantile(0.95)),
        "ttft_p99": rounded(outcomes.ttft.quantile(0.99)),
        "tpot_p95": rounded(outcomes.tpot.quantile(0.95)),
    }


def render(run: Run, form: Format) -> str:
    """Write the result, a line feed at the end. JSON is a list of one, as the simulator's."""
    match form:
        case Format.CSV:
            return as_csv([row(run)])
        case Format.JSON:
            kinds = dict(sorted(run.ledger.kinds.items()))
            return json.dumps([{**row(run), "kinds": kinds}], indent=2) + "\n"
        case Format.TABLE:
            return _table(run)


def as_csv(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Write rows with the same keys, those as a header; an empty cell is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(["" if cell is None else cell for cell in cells.values()] for cells in rows)
    return text.getvalue()


def rounded(value: float | None) -> float | None:
    """Keep microseconds."""
    return None if value is None else round(value, 6)


def _table(run: Run) -> str:
    cells = row(run)
    del cells["kinds"]
    kinds = sorted(run.ledger.kinds.items(), key=lambda kind: (-kind[1], kind[0]))
    lines = [
        (_LABELS.get(name, name.replace("_", " ")), _shown(name, cells[name])) for name in cells
    ]
    lines += [(f"ended as {kind}", str(count)) for kind, count in kinds]
    return aligned(lines)


def _shown(name: str, cell: Cell) -> str:
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    if name == "slo_attainment":
        return f"{cell:.2%}"
    return f"{cell:.3f}" if name.endswith("_ratio") else f"{cell:.3f} s"


def _ratio(count: int, of: int) -> float | None:
    return round(count / of, 4) if of else None
