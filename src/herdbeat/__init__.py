"""Cron for AI agents and HTTP endpoints that can always tell you why."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdbeat.errors import (
        ConfigError,
        CronParseError,
        HerdbeatError,
        IntervalParseError,
        SchedulerError,
        SchedulerShutdownError,
        ScheduleTriggerError,
    )
    from herdbeat.faces.python.crons import (
        calculate_next_cron_trigger,
        is_valid_cron_expression,
        parse_cron_expression,
    )
    from herdbeat.faces.python.intervals import calculate_next_trigger, is_schedule_due, parse_interval
    from herdbeat.governor import Decision, ScheduleState, decide
    from herdbeat.prompts import build_schedule_prompt

__version__ = "0.1.0.dev0"

__all__ = [
    "ConfigError",
    "CronParseError",
    "Decision",
    "HerdbeatError",
    "IntervalParseError",
    "ScheduleState",
    "ScheduleTriggerError",
    "SchedulerError",
    "SchedulerShutdownError",
    "build_schedule_prompt",
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "decide",
    "is_schedule_due",
    "is_valid_cron_expression",
    "parse_cron_expression",
    "parse_interval",
]

_HOMES = {
    "ConfigError": "errors",
    "CronParseError": "errors",
    "Decision": "governor",
    "HerdbeatError": "errors",
    "IntervalParseError": "errors",
    "ScheduleState": "governor",
    "ScheduleTriggerError": "errors",
    "SchedulerError": "errors",
    "SchedulerShutdownError": "errors",
    "build_schedule_prompt": "prompts",
    "calculate_next_cron_trigger": "faces.python.crons",
    "calculate_next_trigger": "faces.python.intervals",
    "decide": "governor",
    "is_schedule_due": "faces.python.intervals",
    "is_valid_cron_expression": "faces.python.crons",
    "parse_cron_expression": "faces.python.crons",
    "parse_interval": "faces.python.intervals",
}


def __getattr__(name: str) -> object:
    # Fetched on first use: `herdbeat --help` must not wait for rooms that it never enters.
    if name not in _HOMES:
        raise AttributeError(f"module 'herdbeat' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.{_HOMES[name]}"), name)
