from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.support.record_builders import make_beat_record

from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS, beat_symbol, format_due, format_time, short_label
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 26, 8, 0, tzinfo=UTC), "09:00:00"),
        (datetime(2026, 3, 27, 8, 0, tzinfo=UTC), "tomorrow 09:00"),
        (datetime(2026, 3, 26, 23, 0, 5, tzinfo=UTC), "tomorrow 00:00:05"),
        (datetime(2026, 3, 25, 8, 0, tzinfo=UTC), "yesterday 09:00"),
        (datetime(2026, 3, 30, 7, 0, tzinfo=UTC), "Mon 30 Mar 09:00"),
        (datetime(2027, 1, 4, 8, 0, tzinfo=UTC), "Mon 04 Jan 2027 09:00"),
    ],
)
def test_the_precision_of_a_time_depends_on_its_distance(moment: datetime, text: str) -> None:
    assert format_time(moment, NOW, BERLIN) == text


@pytest.mark.parametrize(
    ("lasted", "text"),
    [
        (timedelta(hours=2), "12:04:00 to 14:04:00"),
        (timedelta(days=1), "yesterday 14:04 to today 14:04:00"),
        (timedelta(days=3_652), "Sat 26 Mar 2016 14:04 to today 14:04:00"),
    ],
)
def test_a_range_of_days_says_that_it_ends_today(lasted: timedelta, text: str) -> None:
    beat = replace(make_beat_record(), due_at=NOW - lasted, last_due_at=NOW, count=2)

    assert format_due(beat, NOW, BERLIN) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0004, "0ms"), (0.21, "210ms"), (1.23, "1.2s"), (9.96, "10s"), (47, "47s"), (130, "2m 10s")]
)
def test_the_precision_of_a_duration_depends_on_its_length(seconds: float, text: str) -> None:
    assert format_elapsed(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("schedule", "label"), [("a/default", "a"), ("a/b", "a/b"), ("a", "a"), ("fleet/a/default", "fleet/a")]
)
def test_the_label_of_a_default_schedule_is_its_target(schedule: str, label: str) -> None:
    assert short_label(schedule) == label


@pytest.mark.parametrize("status", RunStatus)
def test_a_beat_that_ran_has_the_symbol_of_its_result(status: RunStatus) -> None:
    glyph, _, colour = RUN_STATUS_SYMBOLS[status]

    assert beat_symbol(make_beat_record(last_status=status)) == (glyph, colour)
