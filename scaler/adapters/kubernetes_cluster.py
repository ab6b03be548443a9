"""Replica counts, pods and what KEDA is told, out of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from scaler.adapters.kubernetes_api import KubernetesApi, Link
from scaler.adapters.kubernetes_faults import faults_of
from scaler.adapters.kubernetes_placement import Placement
from scaler.adapters.kubernetes_reflector import Key, Reflector
from scaler.adapters.kubernetes_scaled import (
    HPAS,
    SCALED_OBJECTS,
    HpaView,
    ScaledObjectView,
)
from scaler.adapters.kubernetes_selectors import Target
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.adapters.kubernetes_situation import scale_of, situation_of
from scaler.adapters.kubernetes_targets import ScaleTargets
from scaler.control.ports import Clock
from scaler.core.pods import Pod, Situation
from scaler.core.units import Seconds
from scaler.core.workload import Scale

_SOON: Seconds = 0.1
_MOST_ASKED = 20_000


class KubernetesCluster:
    """Fulfils the port `Cluster` from watches of an API server.

    Followed are the ScaledObjects with an external trigger, and those that somebody asked about.
    `api` is the way to write, for who has the rights. Nothing is asked before `run`, nothing that
    fails ends it, and what was not seen for `stale_after` seconds is not known any more.
    """

    def __init__(self, settings: KubernetesSettings, clock: Clock) -> None:
        """Ask nothing yet."""
        self.api = KubernetesApi(settings)
        self.settings = settings
        self._clock = clock
        self._notify: Callable[[], None] = lambda: None
        self._asked: set[Key] = set()
        self._by_scaled_object: dict[Key, HpaView] = {}
        self._late: dict[Callable[[], None], asyncio.TimerHandle] = {}
        link = Link(api=self.api, settings=settings, clock=clock)
        self._hpas = [
            Reflector(HPAS, scope, link, changed=self._hpa_changed) for scope in settings.scopes
        ]
        self._scaled = {
            scope: Reflector(SCALED_OBJECTS, scope, link, changed=self._scaled_object_changed)
            for scope in settings.scopes
        }
        self._targets = ScaleTargets(link, changed=self._target_changed)
        self._placement = Placement(link, changed=self._tell)

    def scale(self, namespace: str, name: str) -> Scale | None:
        """Return the ScaledObject's count and bounds; None while they are not known."""
        scaled_object, hpa, target = self._views(namespace, name)
        if target is None:
            return None
        counted = self._targets.counted(target)
        current: int | None = None
        if counted is not None and self._is_fresh(counted[1]):
            current = counted[0].replicas
        elif (
            hpa is not None and self._targets.scale_denied(target) and self._hpas_are_fresh(target)
        ):
            current = hpa.current
        if current is None:
            return None
        return scale_of(current, scaled_object, hpa, self.pods(namespace, name))

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...] | None:
        """Return the pods of the scale target, terminating ones included; None if not known."""
        _, _, target = self._views(namespace, name)
        found = self._placement.pods(target) if target is not None else None
        return found[0] if found is not None and self._is_fresh(found[1]) else None

    def situation(self, namespace: str, name: str) -> Situation | None:
        """Return what KEDA and the HPA are told; None while the ScaledObject is not known."""
        scaled_object, hpa, target = self._views(namespace, name)
        mirror = self._scaled_mirror(namespace)
        if scaled_object is None or target is None or not self._is_fresh(mirror.seen_at):
            return None
        return situation_of(scaled_object, hpa, self._targets.head(target))

    def is_gone(self, namespace: str, name: str) -> bool:
        """Say whether a fresh view of the namespace's ScaledObjects has none of this name."""
        mirror = self._scaled.get(namespace) or self._scaled.get(None)
        if mirror is None or not self._is_fresh(mirror.seen_at):
            return False
        return (namespace, name) not in mirror.held and (namespace, name) not in mirror.odd

    def pods_in(self, namespace: str) -> frozenset[str] | None:
        """Return a namespace's pods that are of a followed ScaledObject's target.

        None while its ScaledObjects, or the pods of one of their targets, are not known.
        """
        mirror = self._scaled.get(namespace) or self._scaled.get(None)
        if mirror is None or not self._is_fresh(mirror.seen_at):
            return None
        names = set[str]()
        for target in self._wanted():
            if target.namespace != namespace:
                continue
            found = self._placement.pods(target)
            if found is None or not self._is_fresh(found[1]):
                return None
            names.update(pod.name for pod in found[0])
        return frozenset(names)

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what of the cluster cannot be read and what that costs."""
        mirrors: Iterable[Reflector[Any]] = [
            *self._hpas,
            *self._scaled.values(),
            *self._targets.mirrors(),
            *self._placement.mirrors(),
        ]
        return faults_of(mirrors, self._targets.kinds.values(), self.settings, self._clock.now())

    def on_change(self, notify: Callable[[], None]) -> None:
        """Call `notify` in the event loop's thread when counts, pods or situations changed.

        What changes within a tenth of a second is told once.
        """
        self._notify = notify

    async def run(self) -> None:
        """Keep the view fresh until cancelled."""
        async with self.api, asyncio.TaskGroup() as group:
            for hpas in self._hpas:
                group.create_task(hpas.run())
            for scaled in self._scaled.values():
                group.create_task(scaled.run())
            self._placement.running.start_in(group)
            try:
                await self._targets.run()
            finally:
                self._placement.running.stop()
                for waiting in self._late.values():
                    waiting.cancel()
                self._late.clear()

    def _views(
        self, namespace: str, name: str
    ) -> tuple[ScaledObjectView | None, HpaView | None, Target | None]:
        """Return what is known of a ScaledObject; whoever asks has it followed from then on."""
        key = (namespace, name)
        if key not in self._asked and len(self._asked) < _MOST_ASKED:
            self._asked.add(key)
            self._soon(self._rewire)
        scaled_object = self._scaled_mirror(namespace).held.get(key)
        hpa = self._by_scaled_object.get(key)
        # The ScaledObject says what is meant; its HPA is told so a moment later.
        target = scaled_object or hpa
        return scaled_object, hpa, target.target if target is not None else None

    def _scaled_mirror(self, namespace: str) -> Reflector[ScaledObjectView]:
        found = self._scaled.get(namespace) or self._scaled.get(None)
        return found or next(iter(self._scaled.values()))

    def _is_fresh(self, seen_at: Seconds | None) -> bool:
        """Say whether a view is young enough; one from the future, by a clock set back, is not."""
        age = self._clock.now() - seen_at if seen_at is not None else -1.0
        return 0.0 <= age <= self.settings.stale_after

    def _hpas_are_fresh(self, target: Target) -> bool:
        return any(
            self._is_fresh(mirror.seen_at)
            for mirror in self._hpas
            if mirror.namespace in {None, target.namespace}
        )

    def _hpa_changed(self, key: Key, hpa: HpaView | None) -> None:
        of = self._by_scaled_object
        if hpa is None:
            for gone in [k for k, held in of.items() if (k[0], held.name) == key]:
                del of[gone]
            self._soon(self._rewire)
        else:
            before = of.get((key[0], hpa.scaled_object))
            of[key[0], hpa.scaled_object] = hpa
            self._targets.hint(hpa.target)
            if before is None or (before.target, before.ours) != (hpa.target, hpa.ours):
                self._soon(self._rewire)
        self._tell()

    def _scaled_object_changed(self, _: Key, scaled_object: ScaledObjectView | None) -> None:
        del scaled_object
        self._soon(self._rewire)
        self._tell()

    def _target_changed(self) -> None:
        self._soon(self._place)
        self._tell()

    def _tell(self) -> None:
        self._soon(self._notify_now)

    def _soon(self, what: Callable[[], None]) -> None:
        """Do something a moment later, once for all that asked for it in the meantime."""
        if what in self._late:
            return
        with suppress(RuntimeError):  # somebody asks before a loop runs: nothing runs yet
            loop = asyncio.get_running_loop()
            self._late[what] = loop.call_later(_SOON, self._do, what)

    def _do(self, what: Callable[[], None]) -> None:
        del self._late[what]
        what()

    def _notify_now(self) -> None:
        self._notify()

    def _rewire(self) -> None:
        """Follow the targets of the ScaledObjects that matter."""
        self._targets.want(set(self._wanted()))
        self._place()

    def _place(self) -> None:
        """Follow the pods of those targets whose selectors are known."""
        self._placement.want(self._targets.selectors())

    def _wanted(self) -> Iterable[Target]:
        for mirror in self._scaled.values():
            for key, scaled_object in mirror.held.items():
                if scaled_object.asks_us or key in self._asked:
                    yield scaled_object.target
        for key, hpa in self._by_scaled_object.items():
            if (hpa.ours or key in self._asked) and key not in self._scaled_mirror(key[0]).held:
                yield hpa.target
