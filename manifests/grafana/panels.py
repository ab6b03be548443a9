"""What the dashboards are put together from: queries, and panels that look alike everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import common as style
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    LineInterpolation,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ValueMap,
    ValueMappingResult,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "vllm-keda-scaler"
UIDS = {name: f"vllm-scaler-{name}" for name in ("fleet", "workload", "scaler")}

RED, ORANGE, GREEN, BLUE, GREY = "red", "orange", "green", "blue", "text"


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and what its series are called in the legend."""

    expr: str
    legend: str = "__auto"


Overrides = Mapping[str, Mapping[str, object]]
"""Field properties by the name of a series."""

LINE_HIGH: Mapping[str, object] = {
    "color": {"mode": "fixed", "fixedColor": RED},
    "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
    "custom.fillOpacity": 0,
}
LINE_LOW: Mapping[str, object] = {**LINE_HIGH, "color": {"mode": "fixed", "fixedColor": GREEN}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a graph is drawn: unit, width of 24, stacked or not, and what single series change."""

    unit: str = "short"
    width: int = 12
    height: int = 8
    stacked: bool = False
    decimals: int | None = None
    most: float | None = None
    series: Overrides = field(default_factory=dict)


def _targets(queries: tuple[Query, ...]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery()
        .ref_id(chr(ord("A") + place))
        .datasource(SOURCE)
        .expr(query.expr)
        .legend_format(query.legend)
        .range()
        for place, query in enumerate(queries)
    ]


def _properties(changes: Mapping[str, object]) -> list[DynamicConfigValue]:
    return [DynamicConfigValue(id_val=name, value=value) for name, value in changes.items()]


def graph(title: str, about: str, *queries: Query, look: Look | None = None) -> timeseries.Panel:
    """Return lines over time, drawn as steps: replicas and gauges hold until the next scrape."""
    look = look or Look()
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(look.unit)
        .span(look.width)
        .height(look.height)
        .min(0)
        .line_interpolation(LineInterpolation.STEP_AFTER)
        .fill_opacity(30 if look.stacked else 8)
        .show_points(VisibilityMode.NEVER)
        .legend(
            style.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
        )
        .tooltip(
            style.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
        )
    )
    if look.stacked:
        panel.stacking(style.StackingConfig().mode(StackingMode.NORMAL))
    if look.decimals is not None:
        panel.decimals(look.decimals)
    if look.most is not None:
        panel.max(look.most)
    for target in _targets(queries):
        panel.with_target(target)
    for name, changes in look.series.items():
        panel.override_by_name(name, _properties(changes))
    return panel


def number(
    title: str, about: str, query: Query, *, unit: str = "short", bad_from: float | None = None
) -> stat.Panel:
    """Return the newest value, red from `bad_from` on."""
    steps = [Threshold(value=None, color=GREEN if bad_from is not None else BLUE)]
    if bad_from is not None:
        steps.append(Threshold(value=bad_from, color=RED))
    panel = (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .span(4)
        .height(4)
        .no_value("not known")
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .thresholds(board.ThresholdsConfig().steps(steps))
        .reduce_options(style.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    return panel.with_target(_targets((query,))[0])


def timeline(
    title: str, about: str, query: Query, said: Mapping[int, tuple[str, str]], *, height: int = 8
) -> statetimeline.Panel:
    """Return one row a series, coloured by its value; `said` has a text and a colour for each."""
    mappings = {
        str(value): ValueMappingResult(text=text, color=colour, index=place)
        for place, (value, (text, colour)) in enumerate(said.items())
    }
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .span(24)
        .height(height)
        .mappings([ValueMap(options=mappings)])
        .show_value(VisibilityMode.NEVER)
        .merge_values(merge_values=True)
        .fill_opacity(80)
        .legend(style.VizLegendOptions().show_legend(show_legend=False))
    )
    return panel.with_target(_targets((query,))[0])


def listing(
    title: str, about: str, columns: Mapping[str, Query], links: Mapping[str, tuple[str, str]]
) -> table.Panel:
    """Return a table of the newest values, one row a workload; `links` are title and URL."""
    panel = table.Panel().title(title).description(about).datasource(SOURCE).span(24).height(10)
    names, hidden = {}, {"Time": True}
    for target, (name, query) in zip(
        _targets(tuple(columns.values())), columns.items(), strict=True
    ):
        panel.with_target(target.instant().format(PromQueryFormat.TABLE))
        value = f"Value #{target.build().ref_id}"
        names[value] = name
        # The reason is a label: its value is always 1.
        if "reason" in query.expr:
            hidden[value] = True
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    shown = {"excludeByName": hidden, "renameByName": names}
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=shown))
    for column, (text, url) in links.items():
        link = {"title": text, "url": url, "targetBlank": False}
        panel.override_by_name(column, _properties({"links": [link]}))
    return panel


def choice(
    name: str, label: str, query: str, *, several: bool = False, pattern: str = ""
) -> board.QueryVariable:
    """Return a variable that is filled from Prometheus; `several` lets All be chosen."""
    variable = (
        board.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(several)
        .include_all(several)
    )
    if several:
        variable.all_value(".*").current(VariableOption(selected=True, text="All", value="$__all"))
    return variable.regex(pattern) if pattern else variable


def empty(name: str, title: str, about: str) -> board.Dashboard:
    """Return a dashboard without panels, with the choice of a source and links to the others."""
    made = (
        board.Dashboard(title)
        .uid(UIDS[name])
        .description(about)
        .tags([TAG])
        .timezone("browser")
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(
            board.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
    )
    return made.link(
        board.DashboardLink("vLLM scaler")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(as_dropdown=True)
        .keep_time(keep_time=True)
    )
