"""The policies of a schedule in the words of its file, each with whether it is what nobody asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from herdbeat.config.policies import default_policies
from herdbeat.domain.policies import Backoff, Budget, Policies, Retry
from herdbeat.domain.spend import Scope
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration
from herdbeat.moments import format_moment
from herdbeat.service.gates import SHARED, amount

_ZONE = "timezone"
"""Nobody can tell any more whether it was written here or for the whole fleet, so it is never called a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWord:
    key: str
    text: str
    is_default: bool


def policy_words(
    policies: Policies, trigger: TriggerKind, target: TargetKind, shared: Mapping[Scope, Budget] = MappingProxyType({})
) -> list[PolicyWord]:
    """All that have a value, in the order of the reference. What is not set and has no default is left out.

    `shared` are the budgets that it shares with others.
    """
    usual = dict(_values(default_policies(policies.zone, trigger, target), {}))
    told = [(key, text) for key, text in _values(policies, shared) if text]
    return [PolicyWord(key=key, text=text, is_default=key != _ZONE and usual[key] == text) for key, text in told]


def _values(policies: Policies, shared: Mapping[Scope, Budget]) -> Iterator[tuple[str, str]]:
    limits, bounds = policies.limits, policies.bounds
    yield _ZONE, policies.zone.key
    yield "catchup", policies.catchup
    yield "catchup_max", str(policies.catchup_max)
    yield "grace", _told(policies.grace)
    yield "max_late", _told(policies.max_late)
    yield "overlap", policies.overlap
    yield "jitter", _told(policies.jitter)
    yield "min_interval", _told(limits.at_least)
    yield "max_interval", _told(limits.at_most)
    yield "backoff", _backoff(policies.backoff)
    yield "retry", _retry(policies.retry)
    yield "timeout", _told(policies.timeout)
    yield "late_after", _told(policies.late_after)
    yield "pause_after_failures", _told(policies.pause_after_failures)
    yield "starts_at", _told(bounds.starts_at)
    yield "ends_at", _told(bounds.ends_at)
    yield "max_runs", _told(bounds.max_runs)
    yield "active_hours", _told(policies.active_hours)
    yield "budget", _budgets({Scope.SCHEDULE: policies.budget, **shared})
    yield "precheck", " ".join(policies.precheck)
    yield "priority", str(policies.priority)
    yield "tags", ", ".join(policies.tags)
    yield "group", _told(policies.group)
    yield "runs_on", _told(policies.runs_on)
    yield "dedup", _told(policies.dedup)
    yield "when", _told(policies.when)
    yield "max_queued", _told(policies.max_queued)
    yield "first_run", policies.first_run
    yield "on_interrupt", policies.on_interrupt
    yield "adapt", f"{len(policies.adapt)} rules" if policies.adapt else ""


def _told(value: object) -> str:
    match value:
        case None:
            return ""
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_moment(value)
        case _:
            return str(value)


def _backoff(backoff: Backoff) -> str:
    return f"x{backoff.factor} for each failure, up to {backoff.max_failures}"


def _retry(retry: Retry) -> str:
    if retry.attempts <= 1:
        return "1 attempt"
    return f"{retry.attempts} attempts, {format_duration(retry.wait)} apart, then x{retry.factor}"


def _budgets(budgets: Mapping[Scope, Budget | None]) -> str:
    found = ((scope, budgets.get(scope)) for scope in Scope)
    return "; ".join(f"{budget_words(budget)}{SHARED[scope]}" for scope, budget in found if budget is not None)


def budget_words(budget: Budget) -> str:
    """$5, 2,000,000 tokens, 1 run a day"""
    limits = (
        ("usd_per_day", budget.usd_per_day, ""),
        ("tokens_per_day", budget.tokens_per_day, " tokens"),
        ("runs_per_day", budget.runs_per_day, " run" if budget.runs_per_day == 1 else " runs"),
    )
    told = [f"{amount(name, most)}{unit}" for name, most, unit in limits if most is not None]
    return f"{', '.join(told)} a day"
