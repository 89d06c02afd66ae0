"""Cron for AI agents and HTTP endpoints that can always tell you why."""

from importlib import import_module

TYPE_CHECKING = False  # known to type checkers by its name; importing it from typing took ten times as long as the rest
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
    from herdbeat.faces.python.crons import calculate_next_cron_trigger, is_valid_cron_expression, parse_cron_expression
    from herdbeat.faces.python.documented import (
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
    from herdbeat.faces.python.herd import Herd
    from herdbeat.faces.python.intervals import calculate_next_trigger, is_schedule_due, parse_interval
    from herdbeat.faces.python.schedule_runs import run_schedule
    from herdbeat.faces.python.schedule_states import (
        get_agent_schedule_states,
        get_schedule_state,
        update_schedule_state,
    )
    from herdbeat.faces.python.scheduler import Scheduler
    from herdbeat.governor import Decision, ScheduleState, decide
    from herdbeat.prompts import build_schedule_prompt
    from herdbeat.runners.callable import RunContext

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
    "AgentScheduleInfo": "faces.python.documented",
    "ConfigError": "errors",
    "CronParseError": "errors",
    "Decision": "governor",
    "Herd": "faces.python.herd",
    "HerdbeatError": "errors",
    "IntervalParseError": "errors",
    "PersistedScheduleState": "faces.python.documented",
    "RunContext": "runners.callable",
    "RunScheduleOptions": "faces.python.documented",
    "ScheduleCheckResult": "faces.python.documented",
    "ScheduleRunResult": "faces.python.documented",
    "ScheduleRunnerLogger": "faces.python.documented",
    "ScheduleSkipReason": "faces.python.documented",
    "ScheduleStanding": "faces.python.documented",
    "ScheduleState": "governor",
    "ScheduleStatus": "faces.python.documented",
    "ScheduleTriggerError": "errors",
    "Scheduler": "faces.python.scheduler",
    "SchedulerError": "errors",
    "SchedulerLogger": "faces.python.documented",
    "SchedulerOptions": "faces.python.documented",
    "SchedulerShutdownError": "errors",
    "SchedulerState": "faces.python.documented",
    "SchedulerStatus": "faces.python.documented",
    "SchedulerTriggerCallback": "faces.python.documented",
    "StopOptions": "faces.python.documented",
    "TriggerInfo": "faces.python.documented",
    "TriggerMetadata": "faces.python.documented",
    "TriggerResult": "faces.python.documented",
    "WorkItem": "domain.work_item",
    "WorkSourceManager": "faces.python.documented",
    "build_schedule_prompt": "prompts",
    "calculate_next_cron_trigger": "faces.python.crons",
    "calculate_next_trigger": "faces.python.intervals",
    "decide": "governor",
    "get_agent_schedule_states": "faces.python.schedule_states",
    "get_schedule_state": "faces.python.schedule_states",
    "is_schedule_due": "faces.python.intervals",
    "is_valid_cron_expression": "faces.python.crons",
    "parse_cron_expression": "faces.python.crons",
    "parse_interval": "faces.python.intervals",
    "run_schedule": "faces.python.schedule_runs",
    "update_schedule_state": "faces.python.schedule_states",
}


def __getattr__(name: str) -> object:
    # Fetched on first use: `herdbeat --help` must not wait for rooms that it never enters.
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'herdbeat' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.{_LAZY_MODULES[name]}"), name)


def __dir__() -> list[str]:
    # Also those that nobody has fetched yet: it is what a shell completes from.
    return sorted({*globals(), *__all__})
