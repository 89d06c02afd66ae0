"""Stored plans and shared budgets, read again; and what stands in for a plan that cannot be read any more."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from herdbeat.domain.codec import from_json
from herdbeat.domain.plan import ScheduleSpec
from herdbeat.domain.policies import Budget, Catchup, Policies
from herdbeat.domain.spend import BudgetOwner, BudgetScope
from herdbeat.errors import HerdbeatError
from herdbeat.triggers import Delay, Manual, load_trigger

PLACEHOLDER_PLAN = ScheduleSpec(
    trigger=Manual(),
    policies=Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.SKIP),
)
"""A plan without a time: whoever overlooks that the real one is unreadable starts nothing by it."""


def read_plan(text: str) -> ScheduleSpec:
    """Raises whatever is wrong with the text: it may be damaged, or name a zone this machine does not have."""
    return from_json(ScheduleSpec, json.loads(text), load_trigger)


def read_budgets(rows: Iterable[tuple[str, int, str]]) -> dict[BudgetOwner, Budget]:
    return {BudgetOwner(BudgetScope(scope), number): _read_budget(text) for scope, number, text in rows}


@lru_cache(maxsize=10_000)
def _read_budget(text: str) -> Budget:
    """Asked at every claim, and mostly the same."""
    return from_json(Budget, json.loads(text), load_trigger)


def apply_arm(plan: ScheduleSpec, arm: int) -> ScheduleSpec:
    """A one-shot that was armed again fires under another id. Plans are shared, so the arm is the schedule's own."""
    if arm == 1 or not isinstance(plan.trigger, Delay):
        return plan
    return replace(plan, trigger=replace(plan.trigger, arm=arm))


def describe_read_error(error: Exception) -> str:
    reason = error.message if isinstance(error, HerdbeatError) else f"{type(error).__name__}: {error}"
    return f"its stored plan cannot be read ({reason})"
