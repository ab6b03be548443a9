"""Reads the JSON that a Prometheus-compatible API answers with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: its labels and its (time, value) points, seconds since the epoch."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The series of an answer. `partial`: the server warned that some of them may be missing."""

    series: Sequence[Series]
    partial: bool = False


class NotAnAnswer(ValueError):
    """The text is not what the API promises."""


def parse_answer(body: bytes) -> Answer:
    """Read a successful answer to an instant or a range query. Raises NotAnAnswer."""
    document = _load(body)
    if document.get("status") != "success":
        raise NotAnAnswer(f"status={document.get('status')!s}: {stated_error(body)}")
    try:
        data = document["data"]
        kind, result = data["resultType"], data["result"]
        series = [Series({}, [_point(result)])] if kind == "scalar" else _series(kind, result)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise NotAnAnswer(f"malformed data: {type(error).__name__}") from error
    return Answer(series=series, partial=bool(document.get("warnings")))


def stated_error(body: bytes) -> str:
    """Return what the server says went wrong, whole; empty where it says nothing."""
    try:
        document = _load(body)
    except NotAnAnswer:
        return ""
    return str(document.get("error", ""))


def stated_kind(body: bytes) -> str:
    """Return the server's `errorType`, e.g. `bad_data` or `timeout`; empty where it has none."""
    try:
        return str(_load(body).get("errorType", ""))[:40]
    except NotAnAnswer:
        return ""


def _load(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotAnAnswer("not JSON, or cut off") from error
    if not isinstance(document, dict):
        raise NotAnAnswer("JSON, but no object")
    return document


def _series(kind: str, result: Any) -> list[Series]:
    if kind == "vector":
        return [Series(_labels(row), [_point(row["value"])]) for row in result]
    if kind == "matrix":
        return [Series(_labels(row), [_point(point) for point in row["values"]]) for row in result]
    raise ValueError(kind)


def _labels(row: Any) -> dict[str, str]:
    labels = row["metric"]
    if not isinstance(labels, dict) or not all(type(value) is str for value in labels.values()):
        raise TypeError
    return labels


def _point(point: Any) -> tuple[float, float]:
    instant, value = point
    return float(instant), float(value)
