"""Cron for AI agents and HTTP endpoints that can always tell you why."""

from importlib import import_module

# Type checkers know the name. Importing it from typing took ten times as long as the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from herdbeat.domain.work_item import WorkItem
    from herdbeat.errors import (
        ConfigError,
        CronParseError,
        HerdbeatError,
        IntervalParseError,
        SchedulerError,
        SchedulerShutdownError,
        ScheduleTriggerError,
    )
    from herdbeat.governor import Decision, ScheduleState, decide
    from herdbeat.prompts import build_schedule_prompt
    from herdbeat.python_api.claude_sdk import run_claude_agent
    from herdbeat.python_api.expressions import (
        calculate_next_cron_trigger,
        calculate_next_trigger,
        is_schedule_due,
        is_valid_cron_expression,
        parse_cron_expression,
        parse_interval,
    )
    from herdbeat.python_api.herd import Herd
    from herdbeat.python_api.herdctl_types import (
        AgentScheduleInfo,
        PersistedScheduleState,
        RunScheduleOptions,
        ScheduleCheckResult,
        SchedulerLogger,
        SchedulerOptions,
        SchedulerState,
        SchedulerStatus,
        SchedulerTriggerCallback,
        ScheduleRunnerLogger,
        ScheduleRunResult,
        ScheduleSkipReason,
        ScheduleStanding,
        ScheduleStatus,
        StopOptions,
        TriggerInfo,
        TriggerMetadata,
        TriggerResult,
        WorkSourceManager,
    )
    from herdbeat.python_api.schedule_functions import (
        get_agent_schedule_states,
        get_schedule_state,
        run_schedule,
        update_schedule_state,
    )
    from herdbeat.python_api.scheduler import Scheduler
    from herdbeat.runners.python import RunContext

# A literal, and the only place that states the version: hatchling reads this line, the rolling-upgrade test edits it.
__version__ = "0.1.0"

__all__ = [
    "AgentScheduleInfo",
    "ConfigError",
    "CronParseError",
    "Decision",
    "Herd",
    "HerdbeatError",
    "IntervalParseError",
    "PersistedScheduleState",
    "RunContext",
    "RunScheduleOptions",
    "ScheduleCheckResult",
    "ScheduleRunResult",
    "ScheduleRunnerLogger",
    "ScheduleSkipReason",
    "ScheduleStanding",
    "ScheduleState",
    "ScheduleStatus",
    "ScheduleTriggerError",
    "Scheduler",
    "SchedulerError",
    "SchedulerLogger",
    "SchedulerOptions",
    "SchedulerShutdownError",
    "SchedulerState",
    "SchedulerStatus",
    "SchedulerTriggerCallback",
    "StopOptions",
    "TriggerInfo",
    "TriggerMetadata",
    "TriggerResult",
    "WorkItem",
    "WorkSourceManager",
    "build_schedule_prompt",
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "decide",
    "get_agent_schedule_states",
    "get_schedule_state",
    "is_schedule_due",
    "is_valid_cron_expression",
    "parse_cron_expression",
    "parse_interval",
    "run_claude_agent",
    "run_schedule",
    "update_schedule_state",
]

_MODULE_NAMES = {
    "python_api.herdctl_types": (
        *("AgentScheduleInfo", "PersistedScheduleState", "RunScheduleOptions", "ScheduleCheckResult"),
        *("ScheduleRunResult", "ScheduleRunnerLogger", "ScheduleSkipReason", "ScheduleStanding", "ScheduleStatus"),
        *("SchedulerLogger", "SchedulerOptions", "SchedulerState", "SchedulerStatus", "SchedulerTriggerCallback"),
        *("StopOptions", "TriggerInfo", "TriggerMetadata", "TriggerResult", "WorkSourceManager"),
    ),
    "errors": (
        *("ConfigError", "CronParseError", "HerdbeatError", "IntervalParseError", "ScheduleTriggerError"),
        *("SchedulerError", "SchedulerShutdownError"),
    ),
    "governor": ("Decision", "ScheduleState", "decide"),
    "python_api.herd": ("Herd",),
    "python_api.claude_sdk": ("run_claude_agent",),
    "runners.python": ("RunContext",),
    "python_api.scheduler": ("Scheduler",),
    "domain.work_item": ("WorkItem",),
    "prompts": ("build_schedule_prompt",),
    "python_api.expressions": (
        *("calculate_next_cron_trigger", "calculate_next_trigger", "is_schedule_due", "is_valid_cron_expression"),
        *("parse_cron_expression", "parse_interval"),
    ),
    "python_api.schedule_functions": (
        *("get_agent_schedule_states", "get_schedule_state", "run_schedule", "update_schedule_state"),
    ),
}
_LAZY_MODULES = {name: module for module, names in _MODULE_NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    # Imported on first use: `herdbeat --help` must not pay for packages that it never touches.
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'herdbeat' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.{_LAZY_MODULES[name]}"), name)


def __dir__() -> list[str]:
    # Includes the names that are not imported yet: interactive shells complete from this list.
    return sorted({*globals(), *__all__})
