"""`scaler check`: faults in ScaledObject manifests, before a cluster meets them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click


@click.command("check")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option(
    "--address",
    metavar="REGEX",
    help="Which scalerAddress is this scaler's. Without it, triggers with its keys are taken.",
)
def command(files: tuple[Path, ...], form: str, address: str | None, *, strict: bool) -> None:
    """Look for faults in the ScaledObjects of YAML files ("-" is standard input).

    Exits with 1 if there is an error. Other kinds, and triggers of other scalers, are ignored.
    """
    from scaler.config.findings import failed, render_text, to_json  # noqa: PLC0415 - pydantic
    from scaler.config.manifest import check_manifests  # noqa: PLC0415 - pydantic

    pattern = _pattern(address)
    findings = [
        finding for file in files for finding in check_manifests(_read(file), str(file), pattern)
    ]
    click.echo(to_json(findings) if form == "json" else render_text(findings), nl=False)
    if failed(findings, strict=strict):
        sys.exit(1)


def _pattern(address: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(address) if address is not None else None
    except re.error as error:
        raise click.UsageError(f"--address is no regular expression: {error}") from error


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is not UTF-8 text") from error
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror}") from error
