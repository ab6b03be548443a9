"""Every query of every dashboard has an answer on what a scaler exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from manifests.grafana.build import FOLDER, dashboards, differing
from tests.manifests.built import Json, at, compose, mapping, objects_of, of_kind, rows, texts
from tests.manifests.exported import BEGIN, END, MINUTE, ask

NAMES = sorted(dashboards())
VARIABLES = {
    "datasource": "prometheus",
    "namespace": "llm",
    "scaled_object": "chat",
    "trigger": ".*",
    "hpa": "keda-hpa-chat",
    "instance": ".*",
    "__rate_interval": "1m",
}


def committed(name: str) -> Json:
    """Read a dashboard as Grafana would."""
    read: Json = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return read


def panels(name: str) -> list[Json]:
    """Return a dashboard's panels, rows left out."""
    return [each for each in rows(committed(name), "panels") if each["type"] != "row"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One query, and where it stands."""

    where: str
    expr: str
    instant: bool = False

    @property
    def promql(self) -> str:
        """Fill in the variables as Grafana does."""
        filled = re.sub(r"\$\{?(\w+)\}?", lambda found: VARIABLES[found[1]], self.expr)
        assert "$" not in filled
        return filled


def queries() -> Iterator[Asked]:
    """Go through all queries of panels and annotations."""
    for name in NAMES:
        for panel in panels(name):
            for target in rows(panel, "targets"):
                where = f"{name}: {panel['title']}: {target['refId']}"
                yield Asked(where, str(target["expr"]), bool(target.get("instant")))
        for note in rows(committed(name), "annotations", "list"):
            yield Asked(f"{name}: annotation {note['name']}", str(note["expr"]))


QUERIES = list(queries())


def series(address: str, asked: Asked) -> list[Json]:
    """Ask as a panel would that shows the whole hour, or at its end for a table."""
    if asked.instant:
        return rows(ask(address, "query", query=asked.promql, time=END), "result")
    hour = {"start": BEGIN, "end": END, "step": 15}
    return rows(ask(address, "query_range", query=asked.promql, **hour), "result")


@pytest.mark.prometheus
@pytest.mark.parametrize("asked", QUERIES, ids=lambda asked: asked.where)
def test_every_query_returns_data(scraped_hour: str, asked: Asked) -> None:
    """No panel and no annotation is empty over an hour with calm, overload and an outage."""
    found = series(scraped_hour, asked)
    assert found, asked.promql
    values = [value for row in found for value in texts(row, "values") or [str(row.get("value"))]]
    assert not [value for value in values if "NaN" in str(value) or "Inf" in str(value)]


@pytest.mark.prometheus
@pytest.mark.parametrize("name", NAMES)
def test_every_variable_can_be_chosen(scraped_hour: str, name: str) -> None:
    """Each list is filled from the scaler's own series, and offers the workload that there is."""
    listed = rows(committed(name), "templating", "list")
    filled = [each for each in listed if each["type"] == "query"]
    assert filled
    for variable in filled:
        asked = Asked(name, str(variable["query"]))
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", asked.promql)
        assert found is not None
        answers = ask(scraped_hour, "series", **{"match[]": found[1], "start": BEGIN, "end": END})
        assert isinstance(answers, list)
        offered = {str(row[found[2]]) for row in answers}
        assert offered
        wanted = VARIABLES[str(variable["name"])]
        assert wanted in offered or wanted == ".*"
        if pattern := str(variable.get("regex") or ""):
            filter_ = pattern.strip("/").replace("${scaled_object}", "chat")
            assert re.search(filter_, wanted)


@pytest.mark.prometheus
def test_the_wait_is_shown_while_something_lasts_and_only_then(scraped_hour: str) -> None:
    """Time to sustained falls to nothing while overload lasts; at the calm start it is absent."""
    (left,) = [each for each in QUERIES if each.where == "workload.json: Time to sustained: A"]
    (found,) = series(scraped_hour, left)
    seen = [(float(when), float(value)) for when, value in rows(found, "values")]
    assert min(value for _, value in seen) == 0
    assert 0 < max(value for _, value in seen) <= 45
    assert min(when for when, _ in seen) >= BEGIN + 20 * MINUTE


@pytest.mark.prometheus
def test_each_kind_of_trouble_has_its_row(scraped_hour: str) -> None:
    """Source, queries and configuration stand side by side; in this hour only the first fails."""
    (trouble,) = [each for each in QUERIES if each.where == "workload.json: Trouble: A"]
    seen = {
        str(at(row, "metric", "__name__")): {value for _, value in rows(row, "values")}
        for row in series(scraped_hour, trouble)
    }
    assert seen == {
        "vllm_scaler_source_trouble": {"0", "1"},
        "vllm_scaler_query_trouble": {"0"},
        "vllm_scaler_configuration_fault": {"0"},
    }


def test_the_committed_files_are_what_the_code_makes() -> None:
    """A dashboard that was edited by hand, or not written anew, is found out."""
    assert differing(FOLDER) == []


def test_busy_processors_are_no_signal() -> None:
    """Neither SM nor CPU nor GPU utilisation is asked for anywhere: they say nothing of demand."""
    busy = re.compile(r"cpu|gpu_util|dcgm|nvidia|(?<![a-z])sm_", re.IGNORECASE)
    assert [asked.where for asked in QUERIES if busy.search(asked.expr)] == []


def test_every_panel_says_what_it_shows() -> None:
    """A description, a title of its own, a source that can be chosen, and at least one query."""
    for name in NAMES:
        shown = panels(name)
        titles = [str(panel["title"]) for panel in shown]
        assert len(set(titles)) == len(titles)
        assert all(len(str(panel["description"])) > 10 for panel in shown)
        assert all(rows(panel, "targets") for panel in shown)
        sources = [at(panel, "datasource", "uid") for panel in shown]
        assert set(sources) == {"${datasource}"}


def test_panels_do_not_overlap() -> None:
    """On the grid of 24 columns each panel has its place to itself."""
    for name in NAMES:
        taken: set[tuple[int, int]] = set()
        for panel in rows(committed(name), "panels"):
            grid = {key: int(str(value)) for key, value in mapping(panel, "gridPos").items()}
            assert grid["x"] + grid["w"] <= 24
            cells = {
                (column, line)
                for column in range(grid["x"], grid["x"] + grid["w"])
                for line in range(grid["y"], grid["y"] + grid["h"])
            }
            assert not cells & taken, panel["title"]
            taken |= cells


def test_the_sidecar_finds_each_dashboard() -> None:
    """One labelled ConfigMap a dashboard, small enough for kubectl apply, each with its own uid."""
    maps = of_kind(objects_of("grafana"), "ConfigMap")
    files = [file for found in maps for file in mapping(found, "data").items()]
    assert {at(found, "metadata", "labels", "grafana_dashboard") for found in maps} == {"1"}
    assert len({name for name, _ in files}) == len(files) == len(NAMES)
    # The annotation in which kubectl apply keeps what it applied holds 256 KiB.
    assert max(len(str(text).encode()) for _, text in files) < 200_000
    uids = {json.loads(str(text))["uid"] for _, text in files}
    assert uids == {
        json.loads((FOLDER / name).read_text(encoding="utf-8"))["uid"] for name in NAMES
    }
    assert len(uids) == len(NAMES)


def test_the_component_brings_the_dashboards_along(tmp_path: Path) -> None:
    """Beside the scaler they are the same ConfigMaps."""
    together = objects_of(compose(tmp_path / "both", "cluster-wide", "grafana"))
    names = [at(found, "metadata", "name") for found in of_kind(together, "ConfigMap")]
    assert len([name for name in names if "dashboard" in str(name)]) == len(NAMES)
