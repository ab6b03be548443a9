"""`scaler load`, against a server over real sockets."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaler.cli import main
from scaler.cli.load import BEHIND, INTERRUPTED, MISSED
from scaler.simulation.report import COLUMNS
from tests.adapters.openai.fake_server import Answer, Body, FakeOpenAi, refusal, token

pytestmark = pytest.mark.timeout(60)

KEY = "hunter2-canary"
ROWS = 20
# A busy machine sends late; only the tests of that may notice.
CALM = ["--max-late", "1h", "--patience", "1h", "--slo-ttft", "1h", "--slo-tpot", "1h"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of twenty requests within a fifth of a second, every fifth a long one."""
    rows = (
        {"timestamp": 10 * n, "input_length": 5000 if n % 5 == 4 else 40, "output_length": 5}
        for n in range(ROWS)
    )
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


async def run(server: FakeOpenAi, trace: Path, *arguments: str, **env: str) -> Result:
    """Run the command beside the event loop that serves it, for one round of the trace."""
    common = ["load", "--url", server.url, "--trace", str(trace), "--duration", "200ms"]
    return await asyncio.to_thread(CliRunner().invoke, main, [*common, *CALM, *arguments], env=env)


def only(result: Result) -> dict[str, object]:
    """Read the one row of the JSON."""
    rows = json.loads(result.stdout)
    assert len(rows) == 1
    row = rows[0]
    assert isinstance(row, dict)
    return row


def long_ones_refused(server: FakeOpenAi) -> Callable[[Body], Answer]:
    """Answer as an engine with a context of 4096 tokens."""

    def answer(body: Body) -> Answer:
        output = body["max_tokens"]
        assert isinstance(output, int)
        if server.tokens(body) + output > 4096:
            return refusal(400, "longer than the maximum model length of 4096")
        return server.served(body)

    return answer


async def test_a_test_from_end_to_end(trace: Path) -> None:
    """Every request is sent with its lengths, and what became of them is reported."""
    async with FakeOpenAi().serving() as server:
        server.answer = long_ones_refused(server)
        result = await run(server, trace, "--format", "json")
    row = only(result)
    assert result.exit_code == 0, result.stderr
    counts = ("arrived", "served", "rejected", "too_long", "unfinished", "unsent", "cut_off")
    assert [row[name] for name in counts] == [20, 16, 4, 4, 0, 0, 0]
    assert row["slo_attainment"] == 0.8
    assert row["kinds"] == {"http_400": 4, "served": 16}
    assert (row["prompt_ratio"], row["output_ratio"], row["output_tokens"]) == (1.0, 1.0, 80)
    assert row["scenario"] == "trace.jsonl/steady/load-1/seed-1"
    sent = [body["prompt"] for body in server.asked[-ROWS:]]
    lengths = sorted(len(prompt) for prompt in sent if isinstance(prompt, list))
    assert lengths == [40] * 16 + [5000] * 4
    assert "20.0% of the trace's requests are longer" in result.stderr
    assert "the first http_400 said: longer than the maximum" in result.stderr


async def test_clipping_makes_them_fit(trace: Path) -> None:
    """Those that are too long are shortened, counted all the same, and served."""
    async with FakeOpenAi().serving() as server:
        server.answer = long_ones_refused(server)
        result = await run(server, trace, "--clip", "--format", "json")
    row = only(result)
    assert (row["served"], row["too_long"], row["prompt_ratio"]) == (20, 4, 1.0)
    assert "they are sent shortened" in result.stderr


async def test_columns_are_the_simulator_s(trace: Path) -> None:
    """What means the same has the same name, in the CSV and in the JSON; the page tells all."""
    async with FakeOpenAi().serving() as server:
        result = await run(server, trace, "--format", "csv")
        as_json = only(await run(server, trace, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(rows) == 1
    of_fleets = {"policy", "replica_hours", "ratio_to_bound", "scale_events", "direction_changes"}
    of_fleets |= {"preemptions", "bound_hours", "most_replicas"}
    assert set(COLUMNS) - of_fleets <= rows[0].keys()
    assert rows[0].keys() == as_json.keys()
    assert rows[0]["kinds"] == "served=20"
    page = Path(__file__).parents[2] / "docs" / "how-to" / "load-test.md"
    told = page.read_text(encoding="utf-8")
    assert [name for name in rows[0] if f"`{name}`" not in told] == []


async def test_a_table_for_people(trace: Path) -> None:
    """Labels, units and the ways in which requests ended; the progress is elsewhere."""
    async with FakeOpenAi(counts=False).serving() as server:
        server.answer = lambda body: (
            refusal(429, "slow down", **{"Retry-After": "3"})
            if len(server.asked) > 20 and len(server.asked) % 2
            else server.served(body)
        )
        result = await run(server, trace, "--rate", "200")
    lines = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert lines["SLO attainment"].strip().endswith("%")
    assert lines["TTFT p95"].strip().endswith(" s")
    assert lines["prompt ratio"].strip() == "-"
    assert int(lines["ended as http_429"]) == int(lines["rejected"]) > 0
    assert int(lines["served"]) + int(lines["rejected"]) == int(lines["arrived"])
    assert "sending trace.jsonl under steady" in result.stderr
    assert "the server counts no tokens" in result.stderr


async def test_files_hold_the_result_the_course_and_a_chart(trace: Path, tmp_path: Path) -> None:
    """The rows of the series add up to the result and the warm-up together."""
    folder = tmp_path / "out" / "deep"
    async with FakeOpenAi().serving() as server:
        result = await run(
            server, trace, "--duration", "2s", "--warm-up", "1s", "--output", str(folder),
            "--format", "csv",
        )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert (folder / "results.csv").read_text(encoding="utf-8") == result.stdout
    total = next(csv.DictReader(io.StringIO(result.stdout)))
    with (folder / "series.csv").open(encoding="utf-8", newline="") as lines:
        series = list(csv.DictReader(lines))
    assert [row["at"] for row in series[:2]] == ["0.0", "1.0"]
    assert int(total["warming"]) == int(series[0]["arrived"]) > 0
    for name in ("arrived", "served", "rejected", "unsent"):
        assert sum(int(row[name]) for row in series[1:]) == int(total[name])
    assert int(series[-1]["open"]) == 0
    chart = (folder / "load.svg").read_text(encoding="utf-8")
    assert chart.startswith("<svg")
    assert all(title in chart for title in ("requests a second", "TTFT (s)", "kept the SLO"))


@pytest.mark.parametrize(("slo", "status"), [("1", MISSED), ("0.81", MISSED), ("0.8", 0), ("0", 0)])
async def test_the_exit_status_judges(trace: Path, slo: str, status: int) -> None:
    """1 where less than the wanted share kept the SLO."""
    async with FakeOpenAi().serving() as server:
        server.answer = long_ones_refused(server)
        result = await run(server, trace, "--slo", slo)
    assert result.exit_code == status


async def test_a_slow_server_misses(trace: Path) -> None:
    """Latencies count, not only answers."""
    async with FakeOpenAi().serving() as server:
        result = await run(server, trace, "--slo-ttft", "1ms", "--slo", "0.99", "--format", "json")
    assert result.exit_code == MISSED
    assert only(result)["served"] == 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-in-flight", "1"], "COULD NOT BE SENT"),
        (["--max-late", "1ms", "--rate", "4000"], "did not keep up"),
    ],
)
async def test_a_test_that_did_not_keep_up_says_nothing(
    trace: Path, arguments: list[str], said: str
) -> None:
    """Neither that the SLO was kept nor that it was missed: a status of its own, and loud."""
    async with FakeOpenAi().serving() as server:
        well = server.served
        server.answer = lambda body: Answer(pieces=well(body).pieces, hold=_later(server))
        result = await run(server, trace, "--slo", "1", *arguments)
    assert result.exit_code == BEHIND, result.output
    assert said in result.stderr


def _later(server: FakeOpenAi) -> asyncio.Event:
    """Give an event that is set a little later: an answer that takes its time."""
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05 if len(server.asked) > 5 else 0, event.set)
    return event


async def test_impatient_clients_go(trace: Path) -> None:
    """A server that hangs is left after the patience, and each request is accounted for."""
    async with FakeOpenAi().serving() as server:
        server.answer = lambda body: (
            Answer(hold=asyncio.Event()) if len(server.asked) > 2 else server.served(body)
        )
        result = await run(server, trace, "--patience", "100ms", "--format", "json")
    row = only(result)
    assert (row["given_up"], row["arrived"], row["ttft_p50"]) == (20, 20, None)
    assert row["kinds"] == {"patience": 20}


@pytest.mark.parametrize("source", ["file", "env"])
async def test_a_key_is_used_and_not_shown(trace: Path, tmp_path: Path, source: str) -> None:
    """From a file or the environment; neither stream ever holds it."""
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n", encoding="utf-8")
    how = ["--api-key-file", str(path)] if source == "file" else ["--api-key-env", "LOAD_KEY"]
    async with FakeOpenAi(key=KEY).serving() as server:
        result = await run(server, trace, *how, LOAD_KEY=KEY)
        without = await run(server, trace)
        wrong = await run(server, trace, "--api-key-env", "LOAD_KEY", LOAD_KEY=f"{KEY}-old")
    assert result.exit_code == 0, result.stderr
    assert (without.exit_code, wrong.exit_code) == (2, 2)
    assert "give the server's API key" in without.stderr
    assert KEY not in result.output + without.output + wrong.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "ftp://host"], "--url is no URL"),
        (["--url", "http://me:hunter2-canary@host"], "--url holds credentials"),
        (["--url", "http://[::1"], "--url is no URL"),
        (["--url", "http://host?x=1"], "--url is no URL"),
        (["--load", "2", "--rate", "3"], "--load or --rate, not both"),
        (["--load", "0"], "--load"),
        (["--rate", "nan"], "load is nan"),
        (["--rate", "0.001"], "no request of trace.jsonl comes"),
        (["--slo", "nan"], "no share"),
        (["--slo", "95"], "--slo"),
        (["--shared-prefix", "1.5"], "--shared-prefix"),
        (["--warm-up", "1h"], "leaves nothing"),
        (["--duration", "0"], "--duration"),
        (["--trace", "nowhere.csv"], "nowhere.csv cannot be read"),
        (["--api-key-env", "NOT_SET_ANYWHERE"], "$NOT_SET_ANYWHERE is empty"),
        (["--api-key-env", "A", "--api-key-file", __file__], "not both"),
        (["--api-key-file", __file__], "more than one word"),
        (["--ca-file", __file__], "is no readable file of PEM certificates"),
        (["--model", "nobody"], "it lists m, other"),
        (["--output", __file__], "--output"),
        (["--max-in-flight", "999999999"], "ulimit -n"),
    ],
)
async def test_what_cannot_begin_says_why(trace: Path, arguments: list[str], said: str) -> None:
    """Status 2, the fault by its name, nothing on stdout and nothing sent."""
    async with FakeOpenAi().serving() as server:
        result = await run(server, trace, *arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert said in result.stderr
    assert KEY not in result.output
    assert server.asked == []


async def test_a_server_without_a_list_of_models(trace: Path) -> None:
    """A model that is named need not be listed."""
    async with FakeOpenAi(models_status=404).serving() as server:
        named = await run(server, trace, "--model", "mine", "--format", "json")
        unnamed = await run(server, trace)
    assert (named.exit_code, only(named)["model"]) == (0, "mine")
    assert only(named)["too_long"] == 0
    assert {body["model"] for body in server.asked} == {"mine"}
    assert unnamed.exit_code == 2


@pytest.mark.parametrize("duration", ["1s", "4s"])
async def test_a_rate_holds_in_the_part_that_is_sent(tmp_path: Path, duration: str) -> None:
    """The first second of this trace has forty requests, the next three have none."""
    path = tmp_path / "bursts.jsonl"
    lengths = {"input_length": 3, "output_length": 1}
    instants = [*range(0, 1000, 25), 4000]
    path.write_text("\n".join(json.dumps({"timestamp": at, **lengths}) for at in instants))
    async with FakeOpenAi().serving() as server:
        server.answer = lambda body: (
            server.served(body) if len(server.asked) < 3 else refusal(503, "full")
        )
        arguments = ("--rate", "10", "--duration", duration, "--format", "json")
        row = only(await run(server, path, *arguments))
    arrived = row["arrived"]
    assert isinstance(arrived, int)
    # One in four is kept at random in the first case, all of them in the second.
    assert arrived == 40 if duration == "4s" else 3 <= arrived <= 20


async def test_chats_and_shared_beginnings(trace: Path) -> None:
    """The other API, with half of each prompt the same in all."""
    async with FakeOpenAi(per_word=1, template=0).serving() as server:
        result = await run(server, trace, "--api", "chat", "--shared-prefix", "0.5")
    assert result.exit_code == 0, result.stderr
    texts = []
    for body in server.asked[-ROWS:]:
        messages = body["messages"]
        assert isinstance(messages, list)
        texts.append(messages[0]["content"].split())
    assert len({tuple(words[:20]) for words in texts}) == 1
    assert len({tuple(words[:28]) for words in texts if len(words) == 40}) == 16


async def test_the_same_seed_asks_for_the_same_and_sends_other_texts(trace: Path) -> None:
    """Lengths and order are the seed's; the texts are new, or a cache would have them."""
    runs = []
    async with FakeOpenAi().serving() as server:
        for seed in ("3", "3", "4"):
            server.asked.clear()
            await run(server, trace, "--seed", seed, "--rate", "50")
            runs.append([body["prompt"] for body in server.asked if body["max_tokens"] == 5])
    lengths = [sorted(len(str(prompt).split()) for prompt in prompts) for prompts in runs]
    assert lengths[0] == lengths[1] != lengths[2]
    assert runs[0] != runs[1]


@pytest.mark.parametrize(
    ("signals", "served", "unfinished"),
    [([signal.SIGINT], 5, 0), ([signal.SIGINT, signal.SIGINT], 0, 5), ([signal.SIGTERM], 0, 5)],
    ids=["ctrl-c", "ctrl-c-twice", "sigterm"],
)
async def test_an_interruption_keeps_what_was_measured(
    tmp_path: Path, signals: list[signal.Signals], served: int, unfinished: int
) -> None:
    """Ctrl-C waits for what is open, Ctrl-C again and SIGTERM do not; both report."""
    path = tmp_path / "trace.jsonl"
    row = {"input_length": 4, "output_length": 2}
    instants = [0, 1, 2, 3, 4, 3_000_000]
    path.write_text("\n".join(json.dumps({"timestamp": at, **row}) for at in instants))
    held = asyncio.Event()
    async with FakeOpenAi().serving() as server:
        here = asyncio.Event()

        def answer(body: Body) -> Answer:
            if server.tokens(body) != 4:
                return server.served(body)
            if sum(server.tokens(asked) == 4 for asked in server.asked) == 5:
                here.set()
            return Answer(pieces=server.served(body).pieces, hold=held)

        server.answer = answer
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scaler", "load", "--url", server.url, "--trace", str(path),
            *CALM, "--timeout", "2h", "--format", "json",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stderr is not None
        await here.wait()
        child.send_signal(signals[0])
        if signals[0] is signal.SIGINT:
            while b"no more requests are sent" not in await child.stderr.readline():
                assert not child.stderr.at_eof()
        for again in signals[1:]:
            child.send_signal(again)
        if served:
            held.set()
        output, progress = await child.communicate()
    assert child.returncode == INTERRUPTED, progress
    row = json.loads(output)[0]
    assert (row["arrived"], row["served"], row["unfinished"]) == (5, served, unfinished)
    assert (b"left early: 5 requests" in progress) == bool(unfinished)


async def test_an_engine_that_dies_is_seen(trace: Path) -> None:
    """Streams that are cut are told apart from those that ended."""
    async with FakeOpenAi().serving() as server:
        server.answer = lambda body: (
            Answer(pieces=[token()], ending="abort")
            if len(server.asked) > 2
            else server.served(body)
        )
        row = only(await run(server, trace, "--format", "json"))
    assert (row["cut_off"], row["kinds"]) == (20, {"reset": 20})
    assert row["ttft_p50"] is not None
    assert row["slo_attainment"] == 0
