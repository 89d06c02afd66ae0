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
    "run_schedule",
    "update_schedule_state",
]

_LAZY_MODULES = {
    "AgentScheduleInfo": "python_api.herdctl_types",
    "ConfigError": "errors",
    "CronParseError": "errors",
    "Decision": "governor",
    "Herd": "python_api.herd",
    "HerdbeatError": "errors",
    "IntervalParseError": "errors",
    "PersistedScheduleState": "python_api.herdctl_types",
    "RunContext": "runners.python",
    "RunScheduleOptions": "python_api.herdctl_types",
    "ScheduleCheckResult": "python_api.herdctl_types",
    "ScheduleRunResult": "python_api.herdctl_types",
    "ScheduleRunnerLogger": "python_api.herdctl_types",
    "ScheduleSkipReason": "python_api.herdctl_types",
    "ScheduleStanding": "python_api.herdctl_types",
    "ScheduleState": "governor",
    "ScheduleStatus": "python_api.herdctl_types",
    "ScheduleTriggerError": "errors",
    "Scheduler": "python_api.scheduler",
    "SchedulerError": "errors",
    "SchedulerLogger": "python_api.herdctl_types",
    "SchedulerOptions": "python_api.herdctl_types",
    "SchedulerShutdownError": "errors",
    "SchedulerState": "python_api.herdctl_types",
    "SchedulerStatus": "python_api.herdctl_types",
    "SchedulerTriggerCallback": "python_api.herdctl_types",
    "StopOptions": "python_api.herdctl_types",
    "TriggerInfo": "python_api.herdctl_types",
    "TriggerMetadata": "python_api.herdctl_types",
    "TriggerResult": "python_api.herdctl_types",
    "WorkItem": "domain.work_item",
    "WorkSourceManager": "python_api.herdctl_types",
    "build_schedule_prompt": "prompts",
    "calculate_next_cron_trigger": "python_api.expressions",
    "calculate_next_trigger": "python_api.expressions",
    "decide": "governor",
    "get_agent_schedule_states": "python_api.schedule_functions",
    "get_schedule_state": "python_api.schedule_functions",
    "is_schedule_due": "python_api.expressions",
    "is_valid_cron_expression": "python_api.expressions",
    "parse_cron_expression": "python_api.expressions",
    "parse_interval": "python_api.expressions",
    "run_schedule": "python_api.schedule_functions",
    "update_schedule_state": "python_api.schedule_functions",
}


def __getattr__(name: str) -> object:
    # Imported on first use: `herdbeat --help` must not pay for packages that it never touches.
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'herdbeat' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.{_LAZY_MODULES[name]}"), name)


def __dir__() -> list[str]:
    # Includes the names that are not imported yet: interactive shells complete from this list.
    return sorted({*globals(), *__all__})
