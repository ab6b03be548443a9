"""The engines to scrape, from a file in Prometheus' file_sd format that may change at any time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from scaler.adapters.watched_file import WatchedFile

_PATH_LABEL, _SCHEME_LABEL, _PARAMETER = "__metrics_path__", "__scheme__", "__param_"
_SCHEMES = frozenset({"http", "https"})
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MOST_FAULTS = 20

# Every scalar is text, as in Prometheus (`shard: 3`); the C parser is ten times faster.
_LOADER: type[yaml.CBaseLoader | yaml.BaseLoader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_log = structlog.get_logger(__name__)


class TargetsInvalid(Exception):
    """The file is not a list of targets; the message names every fault and its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One page to read. `labels` are those that selectors see; `pod` names the replica."""

    address: str
    url: str
    namespace: str
    pod: str
    labels: Mapping[str, str]


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    targets: list[str]
    labels: dict[str, str] = {}


_GROUP = TypeAdapter(_Group)


class TargetsFile:
    """Keeps the newest valid list; a faulty edit changes nothing and is told in `fault`."""

    def __init__(self, path: Path) -> None:
        """Read the file once. Raises TargetsInvalid."""
        self.fault: str | None = None
        self._file = WatchedFile(path)
        self._file.changed()
        self.targets = read_targets(path)

    def look(self) -> bool:
        """Read the file again if it changed; say whether the list is another."""
        if not self._file.changed():
            return False
        try:
            self.targets = read_targets(self._file.path)
        except TargetsInvalid as error:
            self.fault = f"{error}; the {len(self.targets)} targets known before are kept"
            _log.warning("targets-invalid", error=self.fault)
            return False
        self.fault = None
        _log.info("targets-read", targets=len(self.targets))
        return True


def read_targets(path: Path) -> tuple[Target, ...]:
    """Read JSON or YAML in file_sd format. Raises TargetsInvalid with every fault of the file.

    The same address and path listed twice is one target; its labels are put together.
    """
    try:
        text = path.read_text(encoding="utf-8")
        groups = _parsed(text)
    except OSError as error:
        raise TargetsInvalid(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise TargetsInvalid(f"{path}: neither JSON nor YAML: {_one_line(error)}") from error
    if not isinstance(groups, list):
        raise TargetsInvalid(f"{path}: is no list (write [] for no targets)")
    targets: dict[str, Target] = {}
    faults: list[tuple[int, str]] = []
    for number, group in enumerate(groups):
        for found in _targets(group):
            told = found if isinstance(found, str) else _added(targets, found)
            if told is not None:
                faults.append((number, told))
    if faults:
        lines = _lines(text)
        told_first = [f"{_place(number, lines)}: {told}" for number, told in faults[:_MOST_FAULTS]]
        more = len(faults) - len(told_first)
        rest = f"; and {more} faults more" if more else ""
        raise TargetsInvalid(f"{path}: {'; '.join(told_first)}{rest}")
    return tuple(targets.values())


def _parsed(text: str) -> object:
    # JSON is YAML but for tabs and a few escapes; and its own parser is far faster.
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            pass  # YAML's flow style begins like that, too
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - it builds nothing but text


def _added(targets: dict[str, Target], found: Target) -> str | None:
    """Add a target, or say why it cannot be beside one that is known."""
    known = targets.get(found.url)
    if known is None:
        targets[found.url] = found
        return None
    if (known.namespace, known.pod) != (found.namespace, found.pod):
        return (
            f"{found.address}: stands in the list twice, as {known.namespace}/{known.pod} "
            f"and as {found.namespace}/{found.pod} (keep one)"
        )
    targets[found.url] = Target(
        address=known.address,
        url=known.url,
        namespace=known.namespace,
        pod=known.pod,
        labels={**found.labels, **known.labels},
    )
    return None


def _targets(given: object) -> Iterator[Target | str]:
    """Give each target of a group, or what is wrong with it."""
    try:
        group = _GROUP.validate_python(given)
    except ValidationError as error:
        for fault in error.errors():
            yield f"{'.'.join(map(str, fault['loc'])) or 'it'}: {fault['msg']}"
        return
    labels = group.labels
    scheme, path = labels.get(_SCHEME_LABEL, "http"), labels.get(_PATH_LABEL, "/metrics")
    seen = {key: value for key, value in labels.items() if not key.startswith("__")}
    if scheme not in _SCHEMES:
        yield f'{_SCHEME_LABEL} is "{scheme[:80]}" (write http or https)'
        return
    if wrong := [key for key in seen if not _LABEL.fullmatch(key)]:
        yield f'"{wrong[0][:80]}" is no name of a label (write letters, digits and _)'
        return
    if not all(map(_is_text, labels.values())):
        yield "a label's value is no Unicode text"
        return
    for address in group.targets:
        if not _is_address(address):
            yield f'"{address[:80]}" is no address (write host:port)'
        elif not seen.get("namespace"):
            yield f"{address}: has no label namespace (add it to the group's labels)"
        else:
            yield Target(
                address=address,
                url=f"{scheme}://{address}{_path(path)}{_query(labels)}",
                namespace=seen["namespace"],
                pod=seen.get("pod") or address,
                labels={"instance": address, **seen},
            )


def _is_address(address: str) -> bool:
    if not address or not _is_text(address) or re.search(r"[\s/@?#%\\]", address):
        return False
    try:
        parts = urlsplit(f"//{address}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_text(value: str) -> bool:
    """Say whether a value can be encoded: JSON's escapes can write halves of characters."""
    return value.isascii() or not re.search(r"[\ud800-\udfff]", value)


def _path(path: str) -> str:
    return quote("/" + path.removeprefix("/"), safe="/%:@!$&'()*+,;=~-._?")


def _query(labels: Mapping[str, str]) -> str:
    found = [(k.removeprefix(_PARAMETER), v) for k, v in labels.items() if k.startswith(_PARAMETER)]
    return f"?{urlencode(found)}" if found else ""


def _lines(text: str) -> list[int]:
    """Return the line on which each item of the list begins; empty where YAML cannot say."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError:
        return []
    return [item.start_mark.line + 1 for item in root.value] if root is not None else []


def _place(number: int, lines: list[int]) -> str:
    return f"line {lines[number]}" if number < len(lines) else f"group {number + 1}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
