"""Fills a trigger from its profile, the defaults and the server's sources."""

from __future__ import annotations

import dataclasses

from scaler.config.entries import pair_faults
from scaler.config.faults import Fault, TriggerUnresolved, did_you_mean, shortened
from scaler.config.keys import BY_FIELD
from scaler.config.promql import named_query
from scaler.config.server import AnySource, ServerConfig
from scaler.config.settings import TriggerSettings
from scaler.config.trigger import Resolved, Trigger
from scaler.core.policy import Policy
from scaler.core.workload import Selection

_POLICY_FIELDS = frozenset(field.name for field in dataclasses.fields(Policy))


def resolve(trigger: Trigger, server: ServerConfig) -> Resolved:
    """Return how to decide on the workload and which series are meant.

    Raises TriggerUnresolved with every fault: they are the server's configuration's to cure, or
    arise only from it, so a later configuration may resolve the same trigger.
    """
    faults: list[Fault] = []
    settings = _filled(trigger.settings, server, faults)
    faults += pair_faults(settings, defaults=True)
    name = _source_name(settings, trigger.key.namespace, server, faults)
    if name is not None:
        faults += _query_faults(settings, name, server.sources[name])
    # Where pods are known they tell which series are meant.
    blind = server.cluster != "kubernetes"
    if blind and settings.model_name is None and settings.selector is None:
        faults.append(
            Fault(
                key="modelName",
                problem="is not given, nor is selector: which series are meant is not known",
                cure="give the engine's model_name, or label matchers",
            )
        )
    if faults or name is None:
        raise TriggerUnresolved(f"the trigger of {trigger.key} cannot be served", faults)
    return Resolved(
        policy=_policy(settings), selection=_selection(settings, name, trigger.key.namespace)
    )


def _filled(
    settings: TriggerSettings, server: ServerConfig, faults: list[Fault]
) -> TriggerSettings:
    if settings.profile is None:
        return settings
    profile = server.profiles.get(settings.profile)
    if profile is None:
        faults.append(
            Fault(
                key="profile",
                value=settings.profile,
                problem="is no profile of the server's configuration",
                cure=did_you_mean(settings.profile, server.profiles),
            )
        )
        return settings
    return settings.over(profile)


def _source_name(
    settings: TriggerSettings, namespace: str, server: ServerConfig, faults: list[Fault]
) -> str | None:
    """Return the source that is meant: one that workloads of this namespace may use."""
    usable = [name for name, s in server.sources.items() if s.may_be_used_by(namespace)]
    wanted = settings.source
    if wanted is None and len(usable) == 1:
        return usable[0]
    if wanted is not None and wanted in usable:
        return wanted
    if wanted is not None and wanted in server.sources:
        problem = f"may not be used by workloads of the namespace {shortened(namespace)}"
        cure = f"add the namespace to sources.{wanted}.namespaces of the server's configuration"
    elif wanted is not None:
        problem = "is no source of the server's configuration"
        cure = did_you_mean(wanted, usable)
    elif usable:
        problem = f"is not given, and the server has several ({', '.join(usable)})"
        cure = "name one of the server's sources"
    elif server.sources:
        problem = f"cannot be found: none may be used by the namespace {shortened(namespace)}"
        cure = "add the namespace to sources.….namespaces of the server's configuration"
    else:
        problem = "cannot be found: the server has none"
        cure = "name one of the server's sources"
    faults.append(Fault(key="source", value=wanted, problem=problem, cure=cure))
    return None


def _query_faults(settings: TriggerSettings, name: str, source: AnySource) -> list[Fault]:
    faults: list[Fault] = []
    for field in ("activation_query", "rejection_query"):
        text: str | None = getattr(settings, field)
        if text is None:
            continue
        key = BY_FIELD[field].name
        query = named_query(text)
        if not source.answers_queries:
            problem = f"cannot be asked: the source {name} reads engines and answers no queries"
            cure = f"give sources.{name} a prometheus to ask, or use a source of type prometheus"
            faults.append(Fault(key=key, problem=problem, cure=cure))
        elif query is not None and query not in source.queries:
            problem = f"is no query of the source {name}"
            cure = did_you_mean(query, source.queries)
            faults.append(Fault(key=key, value=text, problem=problem, cure=cure))
    return faults


def _policy(settings: TriggerSettings) -> Policy:
    given = {name: value for name, value in settings.given.items() if name in _POLICY_FIELDS}
    return dataclasses.replace(Policy(), **given)  # type: ignore[arg-type] # the model checked them


def _selection(settings: TriggerSettings, source: str, namespace: str) -> Selection:
    return Selection(
        source=source,
        namespace=namespace,
        model_name=settings.model_name,
        matchers=settings.selector or (),
        activation_query=settings.activation_query,
        rejection_query=settings.rejection_query,
    )
