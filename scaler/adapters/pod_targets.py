"""The engines to scrape, by the pods of the scale targets."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from scaler.adapters.targets import Target
from scaler.core.pods import Pod

PodsOf: TypeAlias = Callable[[], Mapping[tuple[str, str], tuple[Pod, ...] | None]]
"""Who says which pods there are, by the namespace and name of their ScaledObject; None: unknown."""

_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPage:
    """Where on its pod an engine serves its page; `port` may be a container port's name."""

    port: int | str = 8000
    path: str = "/metrics"
    scheme: str = "http"


class PodTargets:
    """Keeps the targets that the pods give; what is not known at present stays as it was.

    Every pod of a group is a target, whichever of them serves the API. One that terminates is none:
    what it still does counts for nothing.
    """

    def __init__(self, page: PodPage, pods: PodsOf) -> None:
        """Know no pods yet."""
        self.targets: tuple[Target, ...] = ()
        self.fault: str | None = None
        self._page = page
        self._pods = pods
        self._last: dict[tuple[str, str], tuple[Pod, ...]] = {}
        self._made: dict[tuple[str, str], tuple[Pod, Target]] = {}

    def look(self) -> bool:
        """Look at the pods; say whether the targets are others."""
        known = self._pods()
        self._last = {
            place: pods if pods is not None else self._last.get(place, ())
            for place, pods in known.items()
        }
        made: dict[tuple[str, str], tuple[Pod, Target]] = {}
        portless: list[str] = []
        for (namespace, _), pods in self._last.items():
            for pod in pods:
                if pod.ip is None or pod.terminating:
                    continue
                target = self._target(namespace, pod, pod.ip)
                if target is None:
                    portless.append(pod.name)
                else:
                    made[namespace, pod.name] = pod, target
        self._made = made
        self._tell(portless)
        return self._adopt([pair for _, pair in sorted(made.items())])

    def _adopt(self, made: list[tuple[Pod, Target]]) -> bool:
        """Take the targets over; of two pods with one address the younger one has it."""
        oldest_first = sorted(made, key=lambda pair: pair[0].created_at)
        by_url = {target.url: target for _, target in oldest_first}
        targets = tuple(by_url[url] for url in sorted(by_url))
        changed = targets != self.targets
        self.targets = targets
        return changed

    def _target(self, namespace: str, pod: Pod, ip: str) -> Target | None:
        known = self._made.get((namespace, pod.name))
        if known is not None and known[0] is pod:
            return known[1]
        page = self._page
        port = pod.ports.get(page.port) if isinstance(page.port, str) else page.port
        if port is None:
            return None
        address = f"{_in_url(ip)}:{port}"
        own = {"instance": address, "namespace": namespace, "pod": pod.name}
        return Target(
            address=address,
            url=f"{page.scheme}://{address}{page.path}",
            namespace=namespace,
            pod=pod.name,
            labels={**{_NO_LABEL.sub("_", k): v for k, v in pod.labels.items()}, **own},
        )

    def _tell(self, portless: list[str]) -> None:
        fault = None
        if portless:
            fault = (
                f'{len(portless)} pods, such as {min(portless)}, have no port named "'
                f"{self._page.port}\": name the container's port, or set pods.port to its number"
            )
        if fault is not None and self.fault is None:
            _log.warning("pods-without-port", error=fault)
        self.fault = fault


def _in_url(ip: str) -> str:
    return f"[{ip}]" if ipaddress.ip_address(ip).version == 6 else ip  # noqa: PLR2004
