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
        homeless: list[str] = []
        for (namespace, _), pods in self._last.items():
            for pod in pods:
                if pod.ip is None or pod.terminating:
                    continue
                address = _in_url(pod.ip)
                if address is None:
                    homeless.append(pod.name)
                elif (target := self._target(namespace, pod, address)) is None:
                    portless.append(pod.name)
                else:
                    made[namespace, pod.name] = pod, target
        self._made = made
        self._tell(portless, homeless)
        return self._adopt([pair for _, pair in sorted(made.items())])

    def _adopt(self, made: list[tuple[Pod, Target]]) -> bool:
        """Take the targets over; of two pods with one address the younger one has it."""
        oldest_first = sorted(made, key=lambda pair: pair[0].created_at)
        by_url = {target.url: target for _, target in oldest_first}
        targets = tuple(by_url[url] for url in sorted(by_url))
        changed = targets != self.targets
        self.targets = targets
        return changed

    def _target(self, namespace: str, pod: Pod, host: str) -> Target | None:
        known = self._made.get((namespace, pod.name))
        if known is not None and known[0] is pod:
            return known[1]
        page = self._page
        port = pod.ports.get(page.port) if isinstance(page.port, str) else page.port
        if port is None:
            return None
        address = f"{host}:{port}"
        own = {"instance": address, "namespace": namespace, "pod": pod.name}
        return Target(
            address=address,
            url=f"{page.scheme}://{address}{page.path}",
            namespace=namespace,
            pod=pod.name,
            labels={**{_NO_LABEL.sub("_", k): v for k, v in pod.labels.items()}, **own},
        )

    def _tell(self, portless: list[str], homeless: list[str]) -> None:
        faults = []
        if portless:
            faults.append(
                f'{len(portless)} pods, such as {min(portless)}, have no port named "'
                f"{self._page.port}\": name the container's port, or set pods.port to its number"
            )
        if homeless:
            faults.append(
                f"{len(homeless)} pods, such as {min(homeless)}, have a podIP that is no address, "
                "and are not asked: look at their status"
            )
        fault = "; ".join(faults) or None
        if fault is not None and self.fault is None:
            _log.warning("pods-not-asked", error=fault)
        self.fault = fault


def _in_url(ip: str) -> str | None:
    """Return an address as a URL has it; None where it is none."""
    try:
        version = ipaddress.ip_address(ip).version
    except ValueError:
        return None
    return f"[{ip}]" if version == 6 else ip  # noqa: PLR2004
