"""What the ledgers of users contain: a renamed field or enum value would make it unreadable.

The files in `golden/` were written before the tree was renamed. Classes and modules may be renamed; the JSON may not
change: its keys are names of fields, its values those of enums.
"""

import json
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.support.golden_json import check_golden, find_unfilled_fields
from tests.support.stored_values import (
    BUDGET,
    DECISION,
    NOW,
    PLAIN_DECISION,
    RUN_SPEC,
    SCHEDULE_SPECS,
    STATE,
    TARGET_SPECS,
)

from herdbeat import domain
from herdbeat.domain.agent_run import FinishReason, SpendSource
from herdbeat.domain.beat import BeatOutcome, MergedReason, MissedReason, SkipReason
from herdbeat.domain.budget import BudgetScope
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.chat import ChatPlatform
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.decision import Source, StepKind
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.hint import Rank
from herdbeat.domain.isolation import Access, ContainerNetwork, IsolationType
from herdbeat.domain.notification import ConditionKind
from herdbeat.domain.outbox import DeliveryKind, DeliveryState
from herdbeat.domain.planner import ActionKind, PlannerProvider, SessionStatus
from herdbeat.domain.policies import Budget, Catchup, FirstRun, Jitter, OnInterrupt, Overlap, Policies
from herdbeat.domain.remote_run import RemoteRunState, TakeDecision
from herdbeat.domain.rule_state import RuleOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import SPEC_TYPES as SPEC_KINDS
from herdbeat.domain.target import (
    AgentSpec,
    CommandSpec,
    CreatedVia,
    EndpointSpec,
    OnDenied,
    TargetKind,
    ToolMode,
    ToolPolicy,
)
from herdbeat.domain.timing import ScheduleSpec, TimingPolicy
from herdbeat.domain.token import TokenRole
from herdbeat.domain.trigger import IntervalAnchor, TriggerKind
from herdbeat.domain.webhook import HookMethod
from herdbeat.domain.webhook_call import EventAnswer
from herdbeat.domain.work_claim import AttemptUse, WorkClaimState
from herdbeat.domain.workspace import KeepPolicy, WorkspaceState, WorkspaceType
from herdbeat.governor import Pause, ScheduleState
from herdbeat.governor.state import (
    decision_from_json,
    decision_to_json,
    decision_to_text,
    state_from_json,
    state_to_json,
)
from herdbeat.scheduler.apply.diff import describe_budget, describe_spec
from herdbeat.triggers import Manual, load_trigger

GOLDEN = Path(__file__).parent / "golden"

ENUMS: dict[str, type[Enum]] = {
    "access": Access,
    "beat outcome": BeatOutcome,
    "budget scope": BudgetScope,
    "token role": TokenRole,
    "catchup": Catchup,
    "change": ChangeKind,
    "chat platform": ChatPlatform,
    "container network": ContainerNetwork,
    "finish reason": FinishReason,
    "event answer": EventAnswer,
    "executor": ExecutorKind,
    "first run": FirstRun,
    "hint rank": Rank,
    "hook method": HookMethod,
    "interval anchor": IntervalAnchor,
    "isolation": IsolationType,
    "keep": KeepPolicy,
    "missed reason": MissedReason,
    "merged reason": MergedReason,
    "on denied": OnDenied,
    "on interrupt": OnInterrupt,
    "origin": CreatedVia,
    "overlap": Overlap,
    "remote run state": RemoteRunState,
    "rule outcome": RuleOutcome,
    "run status": RunStatus,
    "skip reason": SkipReason,
    "source": Source,
    "attempt use": AttemptUse,
    "work claim state": WorkClaimState,
    "condition": ConditionKind,
    "planner provider": PlannerProvider,
    "planner action": ActionKind,
    "planner session": SessionStatus,
    "delivery kind": DeliveryKind,
    "delivery state": DeliveryState,
    "spend source": SpendSource,
    "take decision": TakeDecision,
    "target kind": TargetKind,
    "tool mode": ToolMode,
    "trace step": StepKind,
    "trigger kind": TriggerKind,
    "workspace": WorkspaceType,
    "workspace state": WorkspaceState,
}

VALUES: dict[str, tuple[type[Any], Any]] = {
    "brief": (RunSpec, RUN_SPEC),
    "budget": (Budget, BUDGET),
    **{f"plan_{kind}": (ScheduleSpec, plan) for kind, plan in SCHEDULE_SPECS.items()},
    **{f"target_{kind}": (SPEC_KINDS[kind], spec) for kind, spec in TARGET_SPECS.items()},
}


@pytest.mark.parametrize("name", VALUES)
def test_a_stored_value_keeps_its_json(name: str) -> None:
    kind, value = VALUES[name]

    check_golden(GOLDEN / f"{name}.json", to_json(value))

    assert from_json(kind, _golden(name), load_trigger) == value


def test_the_inputs_of_a_decision_keep_their_json() -> None:
    check_golden(GOLDEN / "governor_state.json", state_to_json(STATE))

    assert state_from_json(_golden("governor_state"), load_trigger) == STATE


@pytest.mark.parametrize(("name", "decision"), [("decision", DECISION), ("decision_plain", PLAIN_DECISION)])
def test_a_decision_keeps_its_json(name: str, decision: Any) -> None:
    check_golden(GOLDEN / f"{name}.json", decision_to_json(decision))

    assert decision_from_json(_golden(name)) == decision
    assert json.loads(decision_to_text(decision)) == _golden(name)


def test_the_change_log_keeps_its_words() -> None:
    check_golden(
        GOLDEN / "change_facts.json", {"plan": describe_spec(SCHEDULE_SPECS["cron"]), "budget": describe_budget(BUDGET)}
    )


def test_every_enum_keeps_its_values() -> None:
    check_golden(GOLDEN / "enums.json", {name: sorted(each.value for each in kind) for name, kind in ENUMS.items()})


def test_the_rank_is_read_from_the_first_word_of_an_origin() -> None:
    """The rank is found by the name of the member, which therefore is a stored word too."""
    origins = ["human:you", "agent:triage", "rule:surge", "planner"]

    assert [Rank.from_origin(each) for each in origins] == [1, 2, 3, 4]


def test_omitted_fields_keep_their_defaults() -> None:
    """Fields at their default are not stored: another default would change schedules that nobody has edited."""
    least = {
        "policies": Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.SKIP),
        "brief": RunSpec(),
        "budget": Budget(),
        "agent": AgentSpec(runtime="claude", working_directory="work"),
        "tool_policy": ToolPolicy(),
        "endpoint": EndpointSpec(url="https://example.org"),
        "command": CommandSpec(command=("true",), working_directory="."),
        "jitter": Jitter(),
        "pause": Pause(),
        "state": ScheduleState(schedule="a/b", timing=TimingPolicy(trigger=Manual()), anchor_at=NOW),
    }

    check_golden(GOLDEN / "defaults.json", {name: _with_defaults(value) for name, value in least.items()})


def test_no_field_of_a_stored_value_is_overlooked() -> None:
    assert find_unfilled_fields([*(value for _, value in VALUES.values()), STATE]) == []
    assert SCHEDULE_SPECS.keys() == set(TriggerKind)
    assert TARGET_SPECS.keys() == set(TargetKind)


def test_no_enum_of_the_domain_is_overlooked() -> None:
    modules = [import_module(f"{domain.__name__}.{each.name}") for each in iter_modules(domain.__path__)]
    found = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Enum) and each.__module__ == module.__name__
    }

    assert found == set(ENUMS.values())


def _golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def _with_defaults(value: Any) -> Any:
    if not is_dataclass(value) or hasattr(value, "next_time"):
        return to_json(value)
    return {each.name: _with_defaults(getattr(value, each.name)) for each in fields(value) if each.init}
