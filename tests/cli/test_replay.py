"""`scaler replay` on a record: every form, another setting, and what is wrong in words."""

from __future__ import annotations

import csv
import io
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaler.adapters.record_file import write_record
from scaler.cli import main
from scaler.core.units import TICK
from scaler.tuning.comparison import CAVEAT
from tests.core.histories import BUSY, NOW, QUEUEING, row_of, steady
from tests.prometheus_server import Past, prometheus
from tests.tuning.records import record_of

OBJECT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat, namespace: prod}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 1
  triggers:
    - type: external-push
      metadata: {scalerAddress: "vllm-keda-scaler:50051", modelName: llama}
"""


def run(tmp_path: Path, *more: str, text: str = OBJECT) -> Result:
    """Replay forty ticks of a queue."""
    (tmp_path / "so.yaml").write_text(text)
    write_record(record_of(steady(QUEUEING, 40)), tmp_path / "past.gz")
    past = str(tmp_path / "past.gz")
    start = datetime.fromtimestamp(NOW - 3600.0, UTC).isoformat()
    end = datetime.fromtimestamp(NOW, UTC).isoformat()
    span = ["--from", start, "--to", end]
    return CliRunner().invoke(
        main, ["replay", str(tmp_path / "so.yaml"), "--record", past, *span, *more]
    )


def test_the_table_says_what_would_have_been_and_that_it_is_open_loop(tmp_path: Path) -> None:
    """A queue asks for more; thresholds beyond it ask for nothing."""
    found = run(tmp_path)
    assert found.exit_code == 0, found.output
    assert "scale-out-queue: Requests have waited" in found.output
    assert CAVEAT in found.output
    calm = run(tmp_path, "--set", "waitingHigh=900", "--set", "signals=ttft")
    assert "scale-out-queue" not in calm.output


def test_each_form_has_every_tick_or_every_change(tmp_path: Path) -> None:
    """CSV and JSON have the ticks; the page loads nothing from elsewhere."""
    rows = list(csv.DictReader(io.StringIO(run(tmp_path, "--format", "csv").output)))
    told = json.loads(run(tmp_path, "--format", "json").output)
    summary = told["summary"]
    assert summary["seconds"] == len(told["ticks"]) * 15.0
    assert summary["was"]["replica_hours"] > 0
    assert set(summary["would_have_been"]) == set(summary["was"])
    assert len(rows) == len(told["ticks"]) == 40
    assert max(int(row["would_be"]) for row in rows) > 4
    out = tmp_path / "page.html"
    assert run(tmp_path, "--format", "html", "--out", str(out)).exit_code == 0
    page = out.read_text("utf-8")
    assert "<svg" in page
    assert "scale-out-queue" in page
    assert "src=" not in page
    assert "href=" not in page


@pytest.mark.parametrize(
    ("more", "text", "said"),
    [
        (["--set", "waitingHigh"], OBJECT, "is no KEY=VALUE"),
        (["--set", "waitingHihg=3"], OBJECT, "did you mean waitingHigh?"),
        (["--to", "soon"], OBJECT, "is no time"),
        (["--to", "1960-01-01T00:00:00Z"], OBJECT, "--from must lie before --to"),
        ([], "kind: Pod", "has 0 triggers of this scaler"),
        ([], "a: [", "is no YAML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, more: list[str], text: str, said: str) -> None:
    """In one sentence, and with a status that scripts see."""
    found = run(tmp_path, *more, text=text)
    assert found.exit_code != 0
    assert said in found.output


@pytest.mark.prometheus
def test_what_is_exported_from_a_prometheus_is_replayed_the_same(tmp_path: Path) -> None:
    """The same changes from the server and from the file, and progress goes elsewhere."""
    end = time.time() // 60 * 60 - 600.0
    labels = {"namespace": "prod", "pod": "chat-1-a", "model_name": "llama", "engine": "0"}
    past = Past()
    for name, value in (("num_requests_running", 6.0), ("num_requests_waiting", 30.0)):
        times = [end - at * 15.0 - 7.0 for at in range(240)]
        past.add(f"vllm:{name}", labels, dict.fromkeys(times, value))
    (tmp_path / "so.yaml").write_text(OBJECT)
    start, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in (end - 1800.0, end))
    said = ["replay", str(tmp_path / "so.yaml"), "--from", start, "--to", until]
    kept = str(tmp_path / "past.jsonl.gz")
    with prometheus(tmp_path, past) as url:
        live = CliRunner().invoke(
            main, [*said, "--prometheus", url, "--export", kept, "--format", "csv"]
        )
        one = ["--prometheus", url, "--explain-at", until]
        told = CliRunner().invoke(main, [*said[:2], *one])
    assert live.exit_code == 0, live.output
    assert "recomputed from Prometheus with a moment each 15 s" in told.stdout, told.output
    assert f"({list(csv.DictReader(io.StringIO(live.stdout)))[-1]['reason']})" in told.stdout
    again = CliRunner().invoke(main, [*said, "--record", kept, "--format", "csv"])
    assert again.stdout == live.stdout
    assert live.stdout.count("\n") == 122


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("5%", "behavior.scaleUp.tolerance"),
        ("'1e400'", "behavior.scaleUp.tolerance"),
    ],
)
def test_a_tolerance_that_is_no_quantity_is_refused(
    tmp_path: Path, written: str, said: str
) -> None:
    """Kubernetes takes a share and no percentage; nothing is read before that is said."""
    behavior = f"horizontalPodAutoscalerConfig: {{behavior: {{scaleUp: {{tolerance: {written}}}}}}}"
    text = OBJECT.replace("  triggers:", f"  advanced: {{{behavior}}}\n  triggers:")
    found = unread(tmp_path, text)
    assert found.exit_code == 1
    assert said in found.output
    assert "50m" in found.output


def unread(tmp_path: Path, text: str, *more: str) -> Result:
    """Replay from a Prometheus that nobody runs."""
    (tmp_path / "so.yaml").write_text(text)
    said = ["replay", str(tmp_path / "so.yaml"), "--prometheus", "http://127.0.0.1:1", *more]
    return CliRunner().invoke(main, said)


def test_a_trigger_that_only_pods_tell_apart_is_not_read_as_its_namespace(tmp_path: Path) -> None:
    """Under `cluster: kubernetes` it is valid live; a replay says what to give."""
    config = tmp_path / "server.yaml"
    config.write_text(
        "cluster: kubernetes\n"
        "sources: {prometheus: {type: prometheus, url: 'http://127.0.0.1:1'}}\n"
    )
    text = OBJECT.replace(", modelName: llama", "")
    (tmp_path / "so.yaml").write_text(text)
    said = ["replay", str(tmp_path / "so.yaml"), "--config", str(config)]
    found = CliRunner().invoke(main, said)
    assert found.exit_code == 1
    assert "--set modelName=NAME" in found.output
    given = CliRunner().invoke(main, [*said, "--set", "modelName=llama"])
    assert "--set modelName=NAME" not in given.output
    assert "127.0.0.1:1" in given.output
    kept = run(tmp_path, "--config", str(config), text=text)
    assert kept.exit_code == 0, kept.output


def explain_at(tmp_path: Path, at: float, *more: str) -> Result:
    """Explain a moment of twenty busy ticks and twenty with a queue."""
    (tmp_path / "so.yaml").write_text(OBJECT)
    ticks = row_of(*[BUSY] * 20, *[QUEUEING] * 20)
    write_record(record_of(ticks), tmp_path / "past.gz")
    when = datetime.fromtimestamp(at, UTC).isoformat()
    said = ["replay", str(tmp_path / "so.yaml"), "--record", str(tmp_path / "past.gz")]
    return CliRunner().invoke(main, [*said, "--explain-at", when, *more])


@pytest.mark.parametrize(
    ("back", "reason", "asked"), [(30, "warming-up", None), (2, "scale-out-queue", 5)]
)
def test_one_moment_is_explained(tmp_path: Path, back: int, reason: str, asked: int | None) -> None:
    """The last tick at or before it, with what lay before and nothing of what came after."""
    tick = NOW - back * TICK
    found = explain_at(tmp_path, tick + TICK - 1.0)
    assert found.exit_code == 0, found.output
    when = datetime.fromtimestamp(tick, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = f"At {when}, recomputed from the record past.gz with a moment each 15 s"
    assert found.output.startswith(head)
    assert f"reason   {reason}: " in found.output
    assert asked is None or f"asks for {asked}." in found.output


@pytest.mark.parametrize(
    ("at", "more", "said"),
    [
        (NOW + 3600.0, [], "nothing is recorded at"),
        (NOW - 864_000.0, [], "nothing is recorded at"),
        (NOW, ["--from", "-1d"], "leave --from and --to out"),
        (NOW, ["--format", "csv"], "leave --format out"),
    ],
)
def test_a_moment_that_cannot_be_explained(
    tmp_path: Path, at: float, more: list[str], said: str
) -> None:
    """What is not known is not guessed from what lies far away."""
    found = explain_at(tmp_path, at, *more)
    assert found.exit_code != 0
    assert said in found.output


def test_a_moment_to_come_is_not_asked_for(tmp_path: Path) -> None:
    """A Prometheus would answer with what it saw last."""
    when = datetime.fromtimestamp(time.time() + 7200.0, UTC).isoformat()
    found = unread(tmp_path, OBJECT, "--explain-at", when)
    assert found.exit_code == 2
    assert "has not come yet" in found.output
