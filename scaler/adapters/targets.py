"""The engines to scrape, from a file in Prometheus' file_sd format that may change at any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from scaler.adapters.watched_file import WatchedFile

_PATH_LABEL, _SCHEME_LABEL = "__metrics_path__", "__scheme__"
_SCHEMES = frozenset({"http", "https"})

_log = structlog.get_logger(__name__)


class TargetsInvalid(Exception):
    """The file is not a list of targets; the message names every fault."""


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


_GROUPS = TypeAdapter(list[_Group])


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
            self.fault = str(error)
            _log.warning("targets-invalid", error=self.fault, kept=len(self.targets))
            return False
        self.fault = None
        _log.info("targets-read", targets=len(self.targets))
        return True


def read_targets(path: Path) -> tuple[Target, ...]:
    """Read JSON or YAML in file_sd format. Raises TargetsInvalid with every fault of the file."""
    try:
        # JSON is YAML, but PyYAML reads tabs and some escapes of JSON differently.
        groups = _GROUPS.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TargetsInvalid(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TargetsInvalid(f"{path}: neither JSON nor YAML: {_one_line(error)}") from error
    except ValidationError as error:
        faults = [f"group {_place(f['loc'])}: {f['msg']}" for f in error.errors()]
        raise TargetsInvalid(f"{path}: {'; '.join(faults)}") from error
    targets: list[Target] = []
    faults = []
    for number, group in enumerate(groups):
        for found in _targets(group):
            if isinstance(found, Target):
                targets.append(found)
            else:
                faults.append(f"group {number}: {found}")
    if faults:
        raise TargetsInvalid(f"{path}: {'; '.join(faults[:20])}")
    return tuple({target.url: target for target in targets}.values())


def _targets(group: _Group) -> Iterator[Target | str]:
    """Give each target of a group, or what is wrong with it."""
    labels = group.labels
    scheme, path = labels.get(_SCHEME_LABEL, "http"), labels.get(_PATH_LABEL, "/metrics")
    seen = {key: value for key, value in labels.items() if not key.startswith("__")}
    if scheme not in _SCHEMES:
        yield f'{_SCHEME_LABEL} is "{scheme}" (write http or https)'
        return
    for address in group.targets:
        if not address or any(sign in address for sign in "/ @?#"):
            yield f'"{address[:80]}" is no address (write host:port)'
        elif not seen.get("namespace"):
            yield f"{address}: has no label namespace (add it to the group's labels)"
        else:
            yield Target(
                address=address,
                url=f"{scheme}://{address}{path if path.startswith('/') else '/' + path}",
                namespace=seen["namespace"],
                pod=seen.get("pod") or address,
                labels=seen,
            )


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "list"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
