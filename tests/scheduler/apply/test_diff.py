"""What the record says of an edited file: only what differs, in the words of the file."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.policies import ActiveHours, Bounds, Catchup, Jitter, Limits, Overlap, Policies
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.scheduler.apply.diff import describe_spec, diff_schedule, diff_target
from herdbeat.store.base import ScheduleRow, TargetRow
from herdbeat.triggers.interval import Interval

UTC_ZONE = ZoneInfo("UTC")
MINUTE = timedelta(minutes=1)
POLICIES = Policies(zone=UTC_ZONE, timeout=timedelta(hours=1), catchup=Catchup.ONCE)
PLAN = ScheduleSpec(trigger=Interval(5 * MINUTE), policies=POLICIES)
ROW = ScheduleRow(1, "default", "interval", 1, '{"prompt":"Look."}', "herdbeat.yaml:7:5", enabled=True)


def test_only_what_differs_is_listed_before_and_after() -> None:
    policies = replace(POLICIES, limits=Limits(at_least=MINUTE), overlap=Overlap.QUEUE, tags=("ops",))
    new = ScheduleSpec(trigger=Interval(10 * MINUTE), policies=policies)

    before, after = diff_schedule(ROW, PLAN, ROW._replace(enabled=False), new)

    assert before == {"enabled": True, "when": "every 5m", "overlap": "skip", "min_interval": None, "tags": None}
    assert after == {"enabled": False, "when": "every 10m", "overlap": "queue", "min_interval": "1m", "tags": ["ops"]}


def test_a_line_that_only_moved_is_no_difference() -> None:
    assert diff_schedule(ROW, PLAN, ROW._replace(origin="herdbeat.yaml:9:5"), PLAN) == ({}, {})


def test_of_a_prompt_only_the_beginning_is_kept() -> None:
    _, after = diff_schedule(ROW, PLAN, ROW._replace(brief='{"prompt":"' + "word " * 500 + '"}'), PLAN)

    assert str(after["prompt"]).startswith("word word")
    assert len(str(after["prompt"])) <= 80


def test_a_plan_that_could_not_be_read_leaves_the_new_one_alone() -> None:
    before, after = diff_schedule(ROW, None, ROW, PLAN)

    assert (before["when"], after["when"]) == (None, "every 5m")


def test_policies_are_listed_as_the_file_writes_them() -> None:
    policies = replace(
        POLICIES,
        jitter=Jitter(share=0.1),
        active_hours=ActiveHours(opens=time(7), closes=time(22), zone=UTC_ZONE),
        bounds=Bounds(ends_at=datetime(2026, 4, 1, tzinfo=UTC), max_runs=3),
    )

    facts = describe_spec(ScheduleSpec(trigger=PLAN.trigger, policies=policies))

    assert (facts["jitter"], facts["active_hours"], facts["timezone"]) == ("10%", "07:00-22:00", "UTC")
    assert (facts["ends_at"], facts["max_runs"], facts["timeout"]) == ("2026-04-01T00:00:00Z", 3, "1h")


def test_of_a_target_only_the_names_of_its_keys_are_listed() -> None:
    before = TargetRow("api", "endpoint", '{"url":"https://a","headers":{"Authorization":"secret"}}', "", 1)
    after = before._replace(spec='{"url":"https://a","headers":{"Authorization":"other"}}', max_concurrent=2)

    assert diff_target(before, after) == {"changed": ["headers", "max_concurrent"]}
    assert diff_target(before, before._replace(origin="moved")) == {}
