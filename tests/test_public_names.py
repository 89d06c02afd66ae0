"""What `import herdbeat` promises. A change here is a change for every user."""

import subprocess
import sys

import pytest

import herdbeat

PROMISED = [
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


def test_the_public_names_are_these_and_sorted() -> None:
    assert herdbeat.__all__ == PROMISED
    assert herdbeat.__all__ == sorted(herdbeat.__all__)


@pytest.mark.parametrize("name", PROMISED)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(herdbeat, name)

    assert found.__doc__


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parse_intervall'"):
        _ = herdbeat.parse_intervall


def test_importing_herdbeat_loads_nothing_heavy() -> None:
    code = (
        "import sys, herdbeat; print(','.join({'yaml', 'pydantic', 'cyclopts', 'rich', 'asyncio'} & set(sys.modules)))"
    )

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == ""
