"""`scaler check` as it is run from a pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaler.cli import main

FAULTY = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat, namespace: prod}
spec:
  minReplicaCount: 1
  triggers:
    - type: external
      metadata:
        scalerAddress: vllm-keda-scaler.keda.svc:50051
        modelName: llama
        waitingHigh: many
"""
DOUBTFUL = FAULTY.replace("many", '"5"')
FOREIGN = DOUBTFUL.replace("modelName: llama", "query: up").replace("vllm-keda-scaler", "other")
FOREIGN = FOREIGN.replace("        waitingHigh", "        threshold")
OTHER_KIND = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"


def check(tmp_path: Path, text: str, *options: str) -> Result:
    """Write a manifest and check it."""
    file = tmp_path / "scaledobject.yaml"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["check", str(file), *options])


@pytest.mark.parametrize(
    ("text", "options", "status"),
    [
        (FAULTY, (), 1),
        (DOUBTFUL, (), 0),
        (DOUBTFUL, ("--strict",), 1),
        (FOREIGN, ("--strict",), 0),
        (FOREIGN, ("--address", "^other"), 1),
        (OTHER_KIND, ("--strict",), 0),
        ("", ("--strict",), 0),
        ("a: [", (), 1),
    ],
)
def test_the_exit_status_is_for_pipelines(
    tmp_path: Path, text: str, options: tuple[str, ...], status: int
) -> None:
    """Errors fail; warnings do where that is asked for; what is none of ours never does."""
    result = check(tmp_path, text, *options)
    assert result.exit_code == status, result.output
    assert not isinstance(result.exception, Exception)


def test_text_names_file_line_and_cure(tmp_path: Path) -> None:
    """A finding reads as a compiler's does, so that editors can jump to it."""
    output = check(tmp_path, FAULTY).output
    assert "scaledobject.yaml:11: error: ScaledObject prod/chat: waitingHigh" in output
    assert "write a plain number" in output


def test_json_holds_every_finding(tmp_path: Path) -> None:
    """Other programs read rule, severity and place."""
    findings = json.loads(check(tmp_path, FAULTY, "--format", "json").output)
    (error,) = [finding for finding in findings if finding["severity"] == "error"]
    assert (error["rule"], error["line"]) == ("metadata", 11)


def test_several_files_and_standard_input() -> None:
    """A dash stands for what a template engine writes."""
    result = CliRunner().invoke(main, ["check", "-"], input=FAULTY)
    assert result.exit_code == 1
    assert "-:11: error" in result.output


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        ([], 2, "Missing argument"),
        (["no-such-file.yaml"], 2, "does not exist"),
        (["-", "--address", "("], 2, "no regular expression"),
        (["-", "--format", "xml"], 2, "xml"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], status: int, part: str) -> None:
    """A mistake in the command is no finding in a manifest."""
    result = CliRunner().invoke(main, ["check", *arguments], input="")
    assert result.exit_code == status
    assert part in result.output


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    """Binary files are named, not read as something else."""
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 1
    assert "not UTF-8" in result.output
