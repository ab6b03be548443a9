"""Asks a running scaler over HTTP: what `explain` and `diagnose` share."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click

_LARGEST_ANSWER = 16 << 20
_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_WORKLOAD = re.compile(f"{_NAME}/{_NAME}")

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a scaler, or whoever is there, answered."""

    status: int
    kind: str
    text: str
    headers: Mapping[str, str]

    @property
    def printed(self) -> str:
        """Return the answer as it is shown in a terminal."""
        is_json = self.kind == "application/json"
        shown = json.dumps(json.loads(self.text), indent=2) if is_json else self.text
        return shown.rstrip("\n")


def asks_a_scaler(command: F) -> F:
    """Give a command the arguments that `ask` needs."""
    for option in (
        click.option("--timeout", type=click.FloatRange(min=0.1), default=10.0, show_default=True),
        click.option("--format", "form", type=click.Choice(["text", "json"]), default="text"),
        click.option("--trigger", help="Only this trigger, by its digest."),
        click.option(
            "--server",
            metavar="URL",
            default="http://127.0.0.1:8080",
            show_default=True,
            envvar="SCALER_SERVER",
            show_envvar=True,
            help="The scaler's HTTP address.",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="SCALER_HTTP_TOKEN_FILE",
            show_envvar=True,
            help="A token that the scaler asks for; the first line counts.",
        ),
        click.argument("workload", metavar="NAMESPACE/NAME"),
    ):
        command = option(command)
    return command


def ask(
    workload: str,
    below: str,
    *,
    server: str,
    trigger: str | None,
    form: str,
    timeout: float,
    token_file: Path | None = None,
    also: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """Return what the scaler says of a workload at the path `below` it, as text or as JSON.

    `also` goes with the question.

    Raises UsageError and ClickException, whose messages say what to do.
    """
    if not _WORKLOAD.fullmatch(workload):
        raise click.UsageError(
            f'"{workload[:100]}" is no NAMESPACE/NAME of a ScaledObject, such as prod/chat'
        )
    base = _base(server)
    query = {"format": form, **({"trigger": trigger} if trigger is not None else {}), **also}
    namespace, name = workload.split("/")
    path = f"/api/v1/workloads/{quote(namespace)}/{quote(name)}{below}?{urlencode(query)}"
    answer = asyncio.run(_get(base, path, timeout, _headers(token_file)))
    _check(base, answer, form)
    return answer


def _headers(token_file: Path | None) -> dict[str, str]:
    if token_file is None:
        return {}
    try:
        lines = token_file.read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--token-file {token_file} cannot be read") from error
    if not lines:
        raise click.UsageError(f"--token-file {token_file} is empty")
    return {"Authorization": f"Bearer {lines[0]}"}


def _base(server: str) -> SplitResult:
    try:
        parts = urlsplit(server)
        well = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well = False
    if not well:
        raise click.UsageError("--server is no URL such as http://127.0.0.1:8080")
    return parts


def _shown(base: SplitResult) -> str:
    """Return the address without a password that it may hold."""
    return f"{base.scheme}://{base.netloc.rpartition('@')[2]}"


async def _get(base: SplitResult, path: str, timeout: float, headers: Mapping[str, str]) -> Answer:
    import aiohttp  # noqa: PLC0415 - takes a while: only where needed

    url = base.geturl().rstrip("/") + path
    limit = aiohttp.ClientTimeout(total=timeout)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, headers=headers) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > _LARGEST_ANSWER:
                    raise click.ClickException(f"the answer of {_shown(base)} does not end")
            text = body.decode("utf-8", errors="replace")
            return Answer(
                status=answer.status,
                kind=answer.content_type,
                text=text,
                headers=dict(answer.headers),
            )
    except TimeoutError as error:
        raise click.ClickException(
            f"the scaler at {_shown(base)} gave no answer within {timeout:g} s"
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise click.ClickException(
            f"cannot reach a scaler at {_shown(base)}: {reason or type(error).__name__}. Is it "
            "running, and --server right? From outside the cluster: "
            "kubectl port-forward service/vllm-keda-scaler 8080"
        ) from error


def _check(base: SplitResult, answer: Answer, form: str) -> None:
    """Raise unless this is the answer of a scaler."""
    expected = "application/json" if form == "json" else "text/plain"
    if answer.status == 200 and answer.kind == expected:  # noqa: PLR2004 - OK
        return
    raise click.ClickException(
        _message(answer.text)
        or f"{_shown(base)} answered with status {answer.status} and {answer.kind or 'no type'}, "
        "not as a scaler does; is --server the scaler's HTTP address?"
    )


def _message(text: str) -> str | None:
    """Return the message of a scaler's error."""
    try:
        read = json.loads(text)
    except ValueError:
        return None
    error = read.get("error") if isinstance(read, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else None
