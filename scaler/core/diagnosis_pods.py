"""What the pods say: how they last ended, whether they come, and whether they can be scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scaler.core.diagnosis_facts import Facts
from scaler.core.diagnosis_finding import (
    Found,
    Kind,
    NotKnown,
    Severity,
    Verdict,
    counted,
    named,
    quoted,
    span,
)
from scaler.core.learned import DEFAULT_LEAD_TIME
from scaler.core.numbers import seconds
from scaler.core.pods import Exit, Pod
from scaler.core.states import PATIENCE
from scaler.core.units import Seconds

POD_KINDS = (
    Kind.HOST_OOM_KILL,
    Kind.DEVICE_OOM,
    Kind.CRASH_LOOP,
    Kind.STUCK_LOADING,
    Kind.SCRAPING_BLOCKED,
)

_RECENT_EXIT: Seconds = 3600.0
_LOOPING_WITHIN: Seconds = 600.0
_LOOPING_RESTARTS = 3
_SCRAPED_BY: Seconds = 60.0
_TERMINATED = 143
_OOM_KILLED, _BACK_OFF = "OOMKilled", "CrashLoopBackOff"
_DEVICE_OOM = (
    "outofmemoryerror",
    "out of memory",
    "no available memory for the cache blocks",
    "can be stored in kv cache",
    "free memory on device",
)
_UNKNOWN = NotKnown(why="the pods are not known: no cluster, or no right to list them")
_NO_PROOF = (
    "Code 137 without the reason OOMKilled is a kill from outside: the node itself ran out of "
    "memory (kubectl describe node), or the kubelet ended it (a failing liveness probe, a grace "
    "period that was over). None of these is demand, and the fleet is not moved."
)


def pod_verdicts(facts: Facts) -> dict[Kind, Verdict]:
    """Judge by the pods of the scale target."""
    if facts.pods is None:
        return dict.fromkeys(POD_KINDS, _UNKNOWN)
    pods = facts.pods
    return {
        Kind.HOST_OOM_KILL: _host_oom(facts, pods),
        Kind.DEVICE_OOM: _device_oom(facts, pods),
        Kind.CRASH_LOOP: _crash_loop(facts, pods),
        Kind.STUCK_LOADING: _stuck(facts, pods),
        Kind.SCRAPING_BLOCKED: _unscraped(facts, pods),
    }


# --- how containers ended -------------------------------------------------------------------------


def _ended(
    facts: Facts, pods: Iterable[Pod], how: Callable[[Exit], bool]
) -> list[tuple[Pod, Exit]]:
    """Return the pods with a container that ended like this in the last hour, the newest first."""
    found = [
        (pod, pod.last_exit)
        for pod in pods
        if pod.last_exit is not None
        and how(pod.last_exit)
        and (pod.last_exit.at is None or facts.now - pod.last_exit.at <= _RECENT_EXIT)
    ]
    return sorted(found, key=lambda each: (-(each[1].at or 0.0), each[0].name))


def _occurrence(found: list[tuple[Pod, Exit]]) -> str:
    """Name the newest ending: one more is one more occurrence."""
    pod, newest = found[0]
    return f"{pod.name}@{newest.at or 0:.0f}"


def _told(facts: Facts, found: list[tuple[Pod, Exit]]) -> str:
    pod, newest = found[0]
    code = f", exit code {newest.code}" if newest.code is not None else ""
    when = f" {span(max(0.0, facts.now - newest.at))} ago" if newest.at is not None else ""
    restarts = f", {counted(pod.restarts, 'restart')} so far" if pod.restarts else ""
    rest = found[1:]
    others = f"; likewise {named([p.name for p, _ in rest])}" if rest else ""
    reason = quoted(newest.reason) or "no reason given"
    return f"container {newest.container} of {pod.name} ({reason}{code}){when}{restarts}{others}"


def _host_oom(facts: Facts, pods: tuple[Pod, ...]) -> Verdict:
    found = _ended(facts, pods, lambda ended: ended.by_host)
    if not found:
        return None
    proven = [each for each in found if each[1].reason == _OOM_KILLED]
    shown = proven or found
    return Found(
        severity=Severity.CRITICAL if proven else Severity.WARNING,
        evidence=f"Killed by the host: {_told(facts, shown)}.",
        advice=None if proven else _NO_PROOF,
        occurrence=_occurrence(shown),
        pods=tuple(pod.name for pod, _ in shown),
    )


def _by_itself(ended: Exit) -> bool:
    return not ended.by_host and ended.code not in (0, _TERMINATED, None)


def _names_device_memory(ended: Exit) -> bool:
    message = ended.message.lower()
    return any(words in message for words in _DEVICE_OOM)


def _device_oom(facts: Facts, pods: tuple[Pod, ...]) -> Verdict:
    """Judge engines that ended by themselves; last words that name something else acquit."""
    found = _ended(facts, pods, _by_itself)
    proven = [each for each in found if _names_device_memory(each[1])]
    if proven:
        words = quoted(proven[0][1].message[-1000:])
        return Found(
            severity=Severity.CRITICAL,
            evidence=f"Ran out of device memory: {_told(facts, proven)}; its last words: {words}",
            occurrence=_occurrence(proven),
            pods=tuple(pod.name for pod, _ in proven),
        )
    silent = [each for each in found if not each[1].message.strip()]
    if not silent:
        return None
    return Found(
        severity=Severity.WARNING,
        evidence=(
            f"Ended by itself: {_told(facts, silent)}. An engine that runs out of device memory "
            "ends like this, and so does one with another fault: its log (kubectl logs "
            "--previous) says which."
        ),
        occurrence=_occurrence(silent),
        pods=tuple(pod.name for pod, _ in silent),
    )


def _crash_loop(facts: Facts, pods: tuple[Pod, ...]) -> Verdict:
    looping = [pod for pod in pods if not pod.terminating and _loops(facts, pod)]
    if not looping:
        return None
    worst = max(looping, key=lambda pod: pod.restarts)
    others = [pod.name for pod in looping if pod is not worst]
    ended = f"; last ended: {_told(facts, [(worst, worst.last_exit)])}" if worst.last_exit else ""
    return Found(
        severity=Severity.CRITICAL,
        evidence=(
            f"{worst.name} has restarted {counted(worst.restarts, 'time')}{ended}"
            f"{f'; likewise {named(others)}' if others else ''}."
        ),
        occurrence=",".join(sorted(pod.name for pod in looping)),
        pods=tuple(pod.name for pod in looping),
    )


def _loops(facts: Facts, pod: Pod) -> bool:
    if pod.blocked == _BACK_OFF:
        return True
    if pod.restarts < _LOOPING_RESTARTS or pod.last_exit is None:
        return False
    at = pod.last_exit.at
    return facts.now - at <= _LOOPING_WITHIN if at is not None else not pod.ready


# --- pods that do not come, pods that are not heard -----------------------------------------------


def is_heard(facts: Facts, pod: Pod) -> bool:
    """Say whether a pod has ever reported, under its own name or that of its group."""
    return pod.name in facts.heard or pod.replica in facts.heard


def _stuck(facts: Facts, pods: tuple[Pod, ...]) -> Verdict:
    learned = facts.decision.learned
    usual = learned.lead_time if learned is not None else DEFAULT_LEAD_TIME
    late = [
        pod
        for pod in pods
        if not (pod.ready or pod.terminating) and facts.now - _unready(pod) > PATIENCE * usual
    ]
    if not late:
        return None
    oldest = min(late, key=lambda pod: (_unready(pod), pod.name))
    others = [pod.name for pod in late if pod is not oldest]
    why = f" ({quoted(oldest.blocked)})" if oldest.blocked else ""
    nowhere = "; it has no address: not scheduled yet, perhaps for want of a GPU"
    return Found(
        severity=Severity.WARNING,
        evidence=(
            f"{oldest.name} has not been Ready for {span(facts.now - _unready(oldest))}{why}; "
            f"usually it takes {seconds(usual)}"
            f"{nowhere if oldest.ip is None and not oldest.blocked else ''}"
            f"{f'; likewise {named(others)}' if others else ''}."
        ),
        occurrence=",".join(sorted(pod.name for pod in late)),
        pods=tuple(pod.name for pod in late),
    )


def _unready(pod: Pod) -> Seconds:
    """Return since when a pod has not been Ready."""
    return pod.created_at if pod.unready_at is None else pod.unready_at


def _unscraped(facts: Facts, pods: tuple[Pod, ...]) -> Verdict:
    """Find the pods that Kubernetes calls Ready and that the source has never heard."""
    due = facts.now - _SCRAPED_BY
    if facts.trouble is not None and not facts.targets_silent:
        return NotKnown(why="whether the pods can be scraped is not known: the source is silent")
    if facts.looked_since is None or facts.looked_since > due:
        return NotKnown(why="whether the pods can be scraped is not known yet: wait a minute")
    ready = [pod for pod in pods if pod.ready and pod.leader and not pod.terminating]
    unheard = [
        pod
        for pod in ready
        if not is_heard(facts, pod)
        and (pod.ready_at if pod.ready_at is not None else pod.created_at) <= due
    ]
    if not unheard:
        return None
    trouble = f"; the scraper says: {quoted(facts.trouble)}" if facts.trouble else ""
    return Found(
        severity=Severity.CRITICAL if len(unheard) == len(ready) else Severity.WARNING,
        evidence=(
            f"{len(unheard)} of {counted(len(ready), 'Ready pod')} have never shown an engine to "
            f"the source: {named([pod.name for pod in unheard])}{trouble}."
        ),
        occurrence=",".join(sorted(pod.name for pod in unheard)),
        pods=tuple(pod.name for pod in unheard),
    )
