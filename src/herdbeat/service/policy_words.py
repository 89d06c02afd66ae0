"""The policies of a schedule in the words of its file, each with whether it is what nobody asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from herdbeat.config.policies import build_default_policies
from herdbeat.domain.policies import Backoff, Budget, Policies, Retry
from herdbeat.domain.spend import BudgetScope
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration
from herdbeat.moments import format_timestamp
from herdbeat.service.gates import BUDGET_SCOPE_SUFFIXES, format_amount

_TIMEZONE_KEY = "timezone"
"""Nobody can tell any more whether it was written here or for the whole fleet, so it is never called a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValue:
    key: str
    text: str
    is_default: bool


def describe_policies(
    policies: Policies,
    trigger: TriggerKind,
    target: TargetKind,
    shared: Mapping[BudgetScope, Budget] = MappingProxyType({}),
) -> list[PolicyValue]:
    """All that have a value, in the order of the reference. What is not set and has no default is left out.

    `shared` are the budgets that it shares with others.
    """
    defaults = dict(_iter_policy_texts(build_default_policies(policies.zone, trigger, target), {}))
    texts = [(key, text) for key, text in _iter_policy_texts(policies, shared) if text]
    return [
        PolicyValue(key=key, text=text, is_default=key != _TIMEZONE_KEY and defaults[key] == text)
        for key, text in texts
    ]


def _iter_policy_texts(policies: Policies, shared: Mapping[BudgetScope, Budget]) -> Iterator[tuple[str, str]]:
    limits, bounds = policies.limits, policies.bounds
    yield _TIMEZONE_KEY, policies.zone.key
    yield "catchup", policies.catchup
    yield "catchup_max", str(policies.catchup_max)
    yield "grace", _format_value(policies.grace)
    yield "max_late", _format_value(policies.max_late)
    yield "overlap", policies.overlap
    yield "jitter", _format_value(policies.jitter)
    yield "min_interval", _format_value(limits.at_least)
    yield "max_interval", _format_value(limits.at_most)
    yield "backoff", _format_backoff(policies.backoff)
    yield "retry", _format_retry(policies.retry)
    yield "timeout", _format_value(policies.timeout)
    yield "late_after", _format_value(policies.late_after)
    yield "pause_after_failures", _format_value(policies.pause_after_failures)
    yield "starts_at", _format_value(bounds.starts_at)
    yield "ends_at", _format_value(bounds.ends_at)
    yield "max_runs", _format_value(bounds.max_runs)
    yield "active_hours", _format_value(policies.active_hours)
    yield "budget", _format_budgets({BudgetScope.SCHEDULE: policies.budget, **shared})
    yield "precheck", " ".join(policies.precheck)
    yield "priority", str(policies.priority)
    yield "tags", ", ".join(policies.tags)
    yield "group", _format_value(policies.group)
    yield "runs_on", _format_value(policies.runs_on)
    yield "dedup", _format_value(policies.dedup)
    yield "when", _format_value(policies.when)
    yield "max_queued", _format_value(policies.max_queued)
    yield "first_run", policies.first_run
    yield "on_interrupt", policies.on_interrupt
    yield "adapt", f"{len(policies.adapt)} rules" if policies.adapt else ""


def _format_value(value: object) -> str:
    match value:
        case None:
            return ""
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_timestamp(value)
        case _:
            return str(value)


def _format_backoff(backoff: Backoff) -> str:
    return f"x{backoff.factor} for each failure, up to {backoff.max_failures}"


def _format_retry(retry: Retry) -> str:
    if retry.attempts <= 1:
        return "1 attempt"
    return f"{retry.attempts} attempts, {format_duration(retry.wait)} apart, then x{retry.factor}"


def _format_budgets(budgets: Mapping[BudgetScope, Budget | None]) -> str:
    found = ((scope, budgets.get(scope)) for scope in BudgetScope)
    return "; ".join(
        f"{format_budget(budget)}{BUDGET_SCOPE_SUFFIXES[scope]}" for scope, budget in found if budget is not None
    )


def format_budget(budget: Budget) -> str:
    """$5, 2,000,000 tokens, 1 run a day"""
    limits = (
        ("usd_per_day", budget.usd_per_day, ""),
        ("tokens_per_day", budget.tokens_per_day, " tokens"),
        ("runs_per_day", budget.runs_per_day, " run" if budget.runs_per_day == 1 else " runs"),
    )
    texts = [f"{format_amount(name, maximum)}{unit}" for name, maximum, unit in limits if maximum is not None]
    return f"{', '.join(texts)} a day"
