"""The public names of `herdbeat`. A change here affects every user."""

import subprocess
import sys

import pytest

import herdbeat

PROMISED = [
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


def test_the_public_names_are_these_and_sorted() -> None:
    assert herdbeat.__all__ == PROMISED
    assert herdbeat.__all__ == sorted(herdbeat.__all__)


@pytest.mark.parametrize("name", PROMISED)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    found = getattr(herdbeat, name)

    assert found.__doc__


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parse_intervall'"):
        _ = herdbeat.parse_intervall


def test_names_that_are_not_imported_yet_are_listed() -> None:
    code = "import herdbeat; print(set(herdbeat.__all__) <= set(dir(herdbeat)))"

    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert listed.stdout.strip() == "True"


def test_importing_herdbeat_loads_nothing_heavy() -> None:
    code = (
        "import sys, herdbeat; print(','.join({'yaml', 'typing', 'asyncio', 'aiohttp', 'sqlite3'} & set(sys.modules)))"
    )

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == ""
