"""Reading traces, the shapes that ship, and the traffic made from them."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from statistics import mean

import pytest

from scaler.simulation.errors import ProfileUnknown, ShapeInvalid, TraceInvalid
from scaler.simulation.profiles import PROFILES, Profile, profile_named
from scaler.simulation.trace_shapes import SHIPPED, shape_of, shipped_shape, write_shape
from scaler.simulation.traces import Trace, TraceRow, parse_trace, read_trace
from scaler.simulation.workloads import Clients, Workload

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
STEADY = profile_named("steady")


def even(count: int, *, every: float = 1.0) -> Trace:
    """Return a trace of equal requests."""
    rows = tuple(TraceRow(n * every, 100, 20) for n in range(count))
    return Trace(name="even", rows=rows, duration=count * every)


def test_azures_columns_are_read_from_wherever_the_trace_begins(tmp_path: Path) -> None:
    """Times are seconds after the first row, with 100 ns digits, whatever the order of rows."""
    path = tmp_path / "trace.csv"
    path.write_text(
        f"\ufeff{HEADER}\r\n"
        "2023-11-16 18:15:50.6805900,396,109\r\n"
        "2023-11-16 18:15:46.6805900,374,44\r\n"
        "\r\n"
        "2023-11-16 18:15:54.6805900,0,0\r\n",
        encoding="utf-8",
    )
    trace = read_trace(path)
    assert [row.at for row in trace.rows] == pytest.approx([0.0, 4.0, 8.0])
    assert [(row.prompt, row.output) for row in trace.rows] == [(374, 44), (396, 109), (1, 1)]
    assert trace.duration == pytest.approx(12.0)
    assert trace.name == "trace.csv"


def test_json_lines_are_read_in_milliseconds() -> None:
    """Other keys do not matter."""
    lines = [
        '{"timestamp": 5000, "input_length": 12, "output_length": 3, "hash_ids": [1]}',
        '{"timestamp": 7500.5, "input_length": 9000, "output_length": 1}',
    ]
    trace = parse_trace(lines, name="mine")
    assert [row.at for row in trace.rows] == pytest.approx([0.0, 2.5005])
    assert [(row.prompt, row.output) for row in trace.rows] == [(12, 3), (9000, 1)]


def test_a_single_request_is_a_trace_of_a_second() -> None:
    """A rate needs a duration."""
    trace = parse_trace([HEADER, "2023-11-16 18:15:46,3,4"], name="one")
    assert (trace.duration, trace.rate) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        (["\n", "  \n"], "is empty"),
        ([HEADER], "no request below"),
        (["time,in,out", "1,2,3"], "line 1: column TIMESTAMP is missing"),
        ([HEADER, "2023-11-16 18:15:46,3"], "line 2: 2 cells where the header has 3"),
        ([HEADER, "", "yesterday,3,4"], "line 3: 'yesterday' is not a time"),
        ([HEADER, "2023-11-16 18:15:46,-3,4"], "'-3' is not a number of tokens"),
        ([HEADER, "2023-11-16 18:15:46,3,4.5"], "'4.5' is not a number of tokens"),
        (['{"timestamp": 1, "input_length": 2'], "line 1: not JSON"),
        (['{"timestamp": 1, "input_length": 2}'], "line 1: output_length is missing"),
        (['{"timestamp": NaN, "input_length": 2, "output_length": 1}'], "milliseconds"),
        (['{"timestamp": "x", "input_length": 2, "output_length": 1}'], "milliseconds"),
        (['{"timestamp": 1, "input_length": true, "output_length": 1}'], "True is not"),
        (['{"timestamp": 1, "input_length": 1, "output_length": 1}', "[1]"], "line 2: "),
    ],
)
def test_a_broken_trace_is_refused_with_its_line(lines: list[str], message: str) -> None:
    """The message says where and what was expected."""
    with pytest.raises(TraceInvalid, match=message):
        parse_trace(lines, name="mine")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Absent and binary files are told apart."""
    with pytest.raises(TraceInvalid, match="absent"):
        read_trace(tmp_path / "absent")
    packed = tmp_path / "trace.gz"
    packed.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe")
    with pytest.raises(TraceInvalid, match="compressed"):
        read_trace(packed)


@pytest.mark.parametrize(
    ("name", "requests", "seconds", "prompt", "output", "peak"),
    [
        # The originals: requests, span, mean tokens, and the fullest 10 s.
        ("azure-conv", 19_366, 3502, 1154.7, 211.1, 98),
        ("azure-code", 8_819, 3436, 2047.8, 27.9, 327),
    ],
)
def test_a_shipped_shape_draws_what_the_original_had(
    name: str, requests: int, seconds: float, prompt: float, output: float, peak: int
) -> None:
    """Counts are exact, the span within 10 s, mean lengths within 2 %."""
    trace = shipped_shape(name).draw(seed=1)
    assert len(trace.rows) == requests
    assert 0 <= trace.duration - seconds < 10
    assert mean(row.prompt for row in trace.rows) == pytest.approx(prompt, rel=0.02)
    assert mean(row.output for row in trace.rows) == pytest.approx(output, rel=0.02)
    assert max(shipped_shape(name).arrivals) == peak
    assert list(trace.rows) == sorted(trace.rows, key=lambda row: row.at)


def test_a_shape_survives_being_drawn_and_aggregated_again() -> None:
    """Drawing keeps every bin and every cell's range; aggregation finds them again."""
    shape = shipped_shape("azure-code")
    again = shape_of(shape.draw(seed=5), name="again")
    assert sum(again.arrivals) == sum(shape.arrivals)
    assert {cell[:2] for cell in again.cells} <= {cell[:2] for cell in shape.cells}
    assert write_shape(again).startswith('{"bin_seconds":10.0,"arrivals":[')


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    """Traces and profiles list what there is."""
    with pytest.raises(ProfileUnknown, match="azure-conv, azure-code"):
        shipped_shape("azure")
    with pytest.raises(ProfileUnknown, match="day, step, ramp"):
        profile_named("night")


def fingerprint(workload: Workload) -> str:
    """Return a digest of everything about every request."""
    digest = sha256()
    for r in workload.requests():
        digest.update(f"{r.number} {r.arrived!r} {r.prompt} {r.output} {r.session}\n".encode())
    return digest.hexdigest()


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_gives_the_same_bytes_for_the_same_seed(name: str) -> None:
    """Requests come in order, numbered, and differ under another seed."""
    trace = even(60, every=20.0)
    workloads = [
        Workload(trace=trace, profile=PROFILES[name], seed=seed, load=2.5) for seed in (1, 1, 2)
    ]
    first, same, other = (fingerprint(workload) for workload in workloads)
    assert first == same
    assert first != other
    arrived = [(r.number, r.arrived) for r in workloads[0].requests()]
    assert [number for number, _ in arrived] == list(range(len(arrived)))
    assert [at for _, at in arrived] == sorted(at for _, at in arrived)
    assert arrived[-1][1] < workloads[0].length


def test_the_bytes_are_the_same_on_every_machine() -> None:
    """A digest computed once: neither hash seeds nor versions of Python enter."""
    workload = Workload(
        trace=shipped_shape("azure-conv").draw(1),
        profile=profile_named("spike"),
        seed=3,
        duration=600.0,
        clients=Clients(sessions=50),
    )
    assert fingerprint(workload) == DIGEST


DIGEST = "5269ce4996b8ddc818c6fd2ef32d971a299ef084e27276e60c969452b6a5d025"


@pytest.mark.parametrize("load", [0.5, 1.0, 3.0])
def test_the_rate_follows_the_profile_and_the_load(load: float) -> None:
    """In every tenth the count is within four deviations of what the profile asks for."""
    trace = even(3600)
    profile = Profile(name="ramp", about="", duration=36_000.0, points=((0.0, 0.1), (1.0, 1.0)))
    workload = Workload(trace=trace, profile=profile, seed=1, load=load)
    counts = [0] * 10
    for request in workload.requests():
        counts[int(request.arrived // 3600)] += 1
    for index, count in enumerate(counts):
        expected = 3600 * load * profile.level_at((index + 0.5) / 10)
        assert workload.rate_at((index + 0.5) * 3600) * 3600 == pytest.approx(expected)
        assert abs(count - expected) < 4 * expected**0.5 + 1


def test_copies_of_a_trace_begin_at_different_points() -> None:
    """A doubled load is not every request twice."""
    workload = Workload(trace=even(600), profile=STEADY, load=2.0, duration=500.0)
    moments = [request.arrived for request in workload.requests()]
    assert len(moments) == pytest.approx(1000, abs=2)
    assert len(set(moments)) == len(moments)


def test_levels_stay_between_nothing_and_the_peak_and_reach_it() -> None:
    """A profile that never reaches 1 would hide what a load means; long-context is level."""
    for profile in PROFILES.values():
        levels = [profile.level_at(moment) for moment, _ in profile.points]
        assert min(levels) >= 0.0
        assert max(levels) == (0.5 if profile.name == "long-context" else pytest.approx(1.0))


def test_a_long_context_burst_changes_prompts_and_not_the_rate() -> None:
    """In the middle third a third of the prompts grow to 12-30k tokens."""
    trace = even(3600)
    burst = Workload(trace=trace, profile=profile_named("long-context"), seed=4, duration=9000.0)
    calm_profile = Profile(name="calm", about="", duration=9000.0, points=((0.0, 0.5),))
    calm = Workload(trace=trace, profile=calm_profile, seed=4)
    grown = [(r.arrived, r.prompt) for r in burst.requests() if r.prompt > 100]
    assert [r.arrived for r in burst.requests()] == [r.arrived for r in calm.requests()]
    assert {3000 <= at < 6000 for at, _ in grown} == {True}
    assert len(grown) == pytest.approx(3000 * 0.5 / 3, rel=0.15)
    assert min(tokens for _, tokens in grown) >= 12_000
    assert max(tokens for _, tokens in grown) <= 30_000


def test_generations_can_be_stretched_and_clients_described() -> None:
    """Outputs scale to at least one token; patience and sessions reach the requests."""
    clients = Clients(patience=7.0, timeout=70.0, sessions=5)
    shared = Workload(trace=even(100), profile=STEADY, duration=100.0, clients=clients)
    short = Workload(trace=even(100), profile=STEADY, duration=100.0, output_scale=0.01)
    assert {r.output for r in short.requests()} == {1}
    assert {(r.patience, r.timeout) for r in shared.requests()} == {(7.0, 70.0)}
    assert {r.session for r in shared.requests()} == set(range(5))
    assert {r.session for r in short.requests()} == {None}


@pytest.mark.parametrize("load", [0.0, -1.0, float("nan"), float("inf")])
def test_a_load_that_means_nothing_is_refused(load: float) -> None:
    """Before any request is made."""
    with pytest.raises(ShapeInvalid, match="load"):
        Workload(trace=even(3), profile=STEADY, load=load)


def test_the_shipped_names_have_their_data() -> None:
    """Every shipped name opens, and its licence is beside it."""
    licence = files("scaler.simulation").joinpath("data", "README.md").read_text(encoding="utf-8")
    assert "CC-BY-4.0" in licence
    assert "Splitwise" in licence
    for name in SHIPPED:
        assert shipped_shape(name).name == name
        assert f"{name}.json" in licence
