"""Three questions, answered from stored data alone."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.record_builders import (
    MINUTE,
    NOW,
    UTC_ZONE,
    make_beat_record,
    make_run_record,
    make_schedule_record,
    make_schedule_spec,
)

from herdbeat.domain.beat import BeatOutcome, Gap, MergedReason, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Overlap
from herdbeat.domain.records import RunDetails
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.explain import (
    BeatHistory,
    explain_instant,
    explain_next,
    explain_no_beat,
    explain_run,
    load_instant_explanation,
)
from herdbeat.service.serialize import serialize_explanation
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import open_herd
from herdbeat.triggers.cron import Cron

TRACE = json.dumps(
    {
        "steps": [
            {"kind": "candidate", "text": "baseline every 5m", "at": "2026-03-26T13:09:00Z", "won": False},
            {"kind": "candidate", "text": "hint every 30s", "at": "2026-03-26T13:08:00Z", "won": True},
        ]
    }
)
NIGHT = Gap(from_at=NOW - timedelta(hours=9), until=NOW - timedelta(hours=3), reason=MissedReason.SLEPT)


_QUARANTINED = (
    "no next run: the schedule is quarantined (no zone); fix its configuration, or retry: herdbeat reset triage/standup"
)


@pytest.mark.parametrize(
    ("changes", "has_live_node", "text"),
    [
        ({}, True, "next run in 4m because of hint every 30s"),
        ({"next_trace": None}, True, "next run in 4m because of baseline-interval"),
        ({"next_run_at": NOW}, True, "next run now because of hint every 30s"),
        ({"enabled": False}, True, "no next run: enabled: false in herdbeat.yaml:7:5"),
        (
            {"disabled_by": "human:you"},
            True,
            "no next run: disabled by human:you (herdbeat enable triage/standup)",
        ),
        ({"quarantine": "no zone"}, True, _QUARANTINED),
        (
            {"paused": True, "paused_by": "human:you", "paused_reason": "db", "paused_until": NOW + 90 * MINUTE},
            True,
            'paused for another 1h 30m by human:you "db"; resume it: herdbeat resume triage/standup',
        ),
        (
            {"paused": True, "running": 1, "next_run_at": None},
            True,
            "running now; paused; resume it: herdbeat resume triage/standup",
        ),
        ({"running": 1, "next_run_at": None}, True, "running now; the next run is scheduled when this run ends"),
        ({"next_run_at": NOW - MINUTE}, False, "due 1m ago: no scheduler is running"),
        ({"waiting": 1, "next_run_at": None}, True, "the next run is scheduled after the waiting beat has run"),
        ({"next_run_at": None}, True, "no next run: hint every 30s"),
    ],
)
def test_the_next_run_is_explained_by_its_decision(changes: dict[str, Any], has_live_node: bool, text: str) -> None:
    record = make_schedule_record(**{"next_trace": TRACE, **changes})

    assert explain_next(record, NOW, has_live_node=has_live_node).text == text


@pytest.mark.parametrize(
    ("overlap", "waiting", "told"),
    [
        (Overlap.SKIP, 0, "next beat now because of baseline-cron, skipped if the run is still active (overlap: skip)"),
        (
            Overlap.QUEUE,
            0,
            "next beat now because of baseline-cron, which waits until the run ends (overlap: queue)",
        ),
        (Overlap.QUEUE, 1, "next beat now because of baseline-cron, merged into the waiting beat (overlap: queue)"),
        (
            Overlap.CANCEL,
            0,
            "next beat now because of baseline-cron, which cancels the run if it is still active (overlap: cancel)",
        ),
        (Overlap.ALLOW, 0, "next run now because of baseline-cron"),
    ],
)
def test_a_running_cron_schedule_said_next_run_now_of_a_beat_that_was_to_be_skipped(
    overlap: Overlap, waiting: int, told: str
) -> None:
    cron = make_schedule_spec(Cron.parse("* * * * *", UTC_ZONE), overlap=overlap)
    record = make_schedule_record(
        plan=cron, running=1, waiting=waiting, next_run_at=NOW, next_source=Source.BASELINE_CRON
    )

    assert explain_next(record, NOW, has_live_node=True).text == f"running now; {told}"


def test_a_waiting_beat_is_explained_before_the_next_run() -> None:
    waiting = make_beat_record(outcome=BeatOutcome.PENDING, reason=SkipReason.AT_CAPACITY, due_at=NOW - 19 * MINUTE)

    answer = explain_next(make_schedule_record(waiting=1, target_running=1), NOW, has_live_node=True, waiting=waiting)

    assert answer.text == (
        "a beat due 19m ago is waiting (at_capacity, 1 of 1 running); next run in 4m because of baseline-interval"
    )


def test_an_explanation_names_the_closed_gate() -> None:
    record = make_schedule_record(paused=True, running=1, target_running=1)

    answer = explain_next(record, NOW, has_live_node=True)

    assert [gate.gate for gate in answer.gates if not gate.ok] == ["not_paused", "not_running", "capacity"]


def test_the_json_has_what_the_contract_names() -> None:
    answer = serialize_explanation(explain_next(make_schedule_record(next_trace=TRACE), NOW, has_live_node=True))

    assert answer["next_run_at"] == "2026-03-26T13:08:00Z"
    assert answer["source"] == "baseline-interval"
    assert [step["won"] for step in answer["steps"]] == [False, True]  # type: ignore[attr-defined]
    assert {"gate": "capacity", "ok": True, "used": 0, "max": 1} in answer["gates"]  # type: ignore[operator]
    assert answer["text"] == "next run in 4m because of hint every 30s"


def test_a_missed_instant_names_the_gap_the_policy_and_the_fix() -> None:
    record = make_schedule_record(plan=make_schedule_spec(Cron.parse("0 9 * * *", UTC_ZONE)))
    missed = make_beat_record(outcome=BeatOutcome.MISSED, reason=MissedReason.SLEPT)

    answer = explain_instant(record, BeatHistory(beat=missed, gap=NIGHT), NOW, UTC_ZONE)

    assert answer.text == "triage/standup was due Thu 26 Mar 09:04:00 UTC and did not run."
    assert answer.facts[0] == (
        "missed",
        "this machine was asleep from Thu 26 Mar 04:04:00 UTC to Thu 26 Mar 10:04:00 UTC",
    )
    assert answer.facts[1] == ("catchup", "skip: missed beats do not run later (the default for cron)")
    assert answer.fix == "set catchup: once in herdbeat.yaml:7:5, or run it now: herdbeat run triage/standup"


def test_a_beat_that_was_too_late_after_an_outage_was_called_too_late_from_then_to_then() -> None:
    late = make_beat_record(outcome=BeatOutcome.MISSED, reason=MissedReason.TOO_LATE)

    answer = explain_instant(make_schedule_record(), BeatHistory(beat=late, gap=NIGHT), NOW, UTC_ZONE)

    assert answer.facts[0] == (
        "missed",
        "it was too late: this machine was asleep from Thu 26 Mar 04:04:00 UTC to Thu 26 Mar 10:04:00 UTC",
    )


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (Source.RETRY, "for its next attempt"),
        (Source.CATCH_UP, "for its turn: missed beats start one after the other (catchup_rate)"),
        (SkipReason.AT_CAPACITY, "at_capacity: the target was at capacity"),
    ],
)
def test_a_beat_that_waits_for_its_retry_was_explained_as_retry_retry(reason: str, waits: str) -> None:
    beat = make_beat_record(outcome=BeatOutcome.PENDING, reason=reason)

    answer = explain_instant(make_schedule_record(), BeatHistory(beat=beat), NOW, UTC_ZONE)

    assert answer.facts[0] == ("waiting", waits)


@pytest.mark.parametrize(
    ("changes", "policies", "facts", "fix"),
    [
        (
            {"outcome": BeatOutcome.MISSED, "reason": MissedReason.TOO_LATE},
            {"max_late": 5 * MINUTE},
            [("missed", "it was too late"), ("max_late", "5m: beats that are later than this do not run")],
            "set max_late to more than 5m",
        ),
        (
            {"outcome": BeatOutcome.MISSED, "reason": MissedReason.SCHEDULER_DOWN},
            {"catchup": Catchup.ALL},
            [
                ("missed", "no scheduler was running"),
                ("catchup", "all, limited to the newest 100 (catchup_max)"),
            ],
            "raise catchup_max",
        ),
        (
            {"outcome": BeatOutcome.SKIPPED, "reason": SkipReason.ALREADY_RUNNING},
            {},
            [
                ("skipped", "already_running: its previous run was still active"),
                ("overlap", "skip: beats due during an active run are skipped"),
            ],
            "set overlap: queue",
        ),
        (
            {"outcome": BeatOutcome.MERGED, "reason": Catchup.ONCE},
            {"catchup": Catchup.ONCE},
            [
                ("merged", "into another beat"),
                ("catchup", "once: one run replaces all missed beats"),
            ],
            "set catchup: all",
        ),
        (
            {"outcome": BeatOutcome.MERGED, "reason": SkipReason.AT_CAPACITY},
            {"overlap": Overlap.QUEUE},
            [
                ("merged", "into another beat"),
                ("overlap", "queue: merged into the waiting beat"),
            ],
            "set overlap: queue_all",
        ),
        (
            {"outcome": BeatOutcome.MERGED, "reason": MergedReason.CANCEL},
            {"overlap": Overlap.CANCEL},
            [
                ("merged", "into another beat"),
                ("overlap", "cancel: a later beat was due before this one could start"),
            ],
            "set overlap: queue_all",
        ),
        (
            {"outcome": BeatOutcome.MERGED, "reason": MergedReason.CATCHUP_MAX},
            {"overlap": Overlap.QUEUE_ALL},
            [
                ("merged", "into another beat"),
                ("catchup_max", "100: more beats were due at once; only the newest ran"),
            ],
            "raise catchup_max",
        ),
        (
            {"outcome": BeatOutcome.SKIPPED, "reason": SkipReason.PAUSED},
            {},
            [("skipped", "paused: the schedule was paused")],
            "",
        ),
        (
            {"outcome": BeatOutcome.PENDING, "reason": SkipReason.AT_CAPACITY, "settled_at": None},
            {},
            [("waiting", "at_capacity: the target was at capacity")],
            "",
        ),
    ],
)
def test_an_instant_that_did_not_run_says_why(
    changes: dict[str, Any], policies: dict[str, Any], facts: list[tuple[str, str]], fix: str
) -> None:
    record = make_schedule_record(plan=make_schedule_spec(**policies))

    answer = explain_instant(record, BeatHistory(beat=make_beat_record(**changes)), NOW, UTC_ZONE)

    assert [fact for fact in answer.facts if fact[0] != "recorded"] == facts
    assert answer.fix.startswith(fix)
    assert bool(answer.fix) is bool(fix)


@pytest.mark.parametrize(
    ("overlap", "at", "fact"),
    [
        (Overlap.QUEUE, 5, "into the beat of Mon 02 Mar 03:02:00 UTC, ran as 0002"),
        (Overlap.CANCEL, 3, "into the beat of Mon 02 Mar 03:06:00 UTC, ran as 0001"),
        (Overlap.QUEUE_ALL, 2, "into the beat of Mon 02 Mar 03:05:00 UTC, ran as 0001"),
    ],
)
async def test_a_merged_instant_names_the_beat_that_ran_for_it(
    tmp_path: Path, overlap: Overlap, at: int, fact: str
) -> None:
    """It was explained as `ran`, because one row of six instants had run."""
    async with open_herd(tmp_path) as herd:
        herd.schedule("report", cron="* * * * *", overlap=overlap, catchup_max=2)
        schedule_id, start = herd.snapshot("report").id, herd.now
        herd.clock.advance(6 * MINUTE)
        await herd.tick()
        reader = SqliteReader(herd.store.path)

        record = reader.schedule(schedule_id)
        assert record is not None
        answer = load_instant_explanation(reader, record, start + at * MINUTE, herd.now, UTC_ZONE)
        reader.close()

    assert "did not run" in answer.text
    assert answer.facts[0] == ("merged", fact)


@pytest.mark.parametrize("reason", [reason for reason in SkipReason if reason is not SkipReason.NOT_DUE])
def test_every_skip_reason_that_is_ever_stored_has_words(reason: SkipReason) -> None:
    skipped = make_beat_record(outcome=BeatOutcome.SKIPPED, reason=reason)

    answer = explain_instant(make_schedule_record(), BeatHistory(beat=skipped), NOW, UTC_ZONE)

    assert answer.facts[0][1].startswith(f"{reason}: ")
    assert answer.facts[0][1] != f"{reason}: {reason}"


def test_a_range_of_instants_is_explained_as_one() -> None:
    missed = make_beat_record(
        outcome=BeatOutcome.MISSED, reason=MissedReason.SLEPT, count=3, last_due_at=NOW - 60 * MINUTE
    )

    answer = explain_instant(make_schedule_record(), BeatHistory(beat=missed), NOW, UTC_ZONE)

    assert "was due 3 times from Thu 26 Mar 09:04:00 UTC to Thu 26 Mar 12:04:00 UTC" in answer.text


def test_an_instant_that_ran_shows_its_run_and_the_frozen_trace() -> None:
    past = BeatHistory(
        beat=make_beat_record(), runs=(make_run_record(status=RunStatus.FAILED, error="exit code 1"),), trace=TRACE
    )

    answer = explain_instant(make_schedule_record(), past, NOW, UTC_ZONE)

    assert answer.facts[0] == ("ran", "0009 failed after 1m: exit code 1")
    assert len(answer.steps) == 2


def test_a_moment_of_another_year_looked_like_one_of_this_year() -> None:
    record = make_schedule_record(next_run_at=NOW + timedelta(days=1000))

    answer = explain_no_beat(record, NOW - timedelta(days=1000), (None, None), NOW, UTC_ZONE)

    assert answer.text == "triage/standup had no beat due at Fri 30 Jun 2023 13:04:00 UTC (not_due)."
    assert answer.facts == (("after", "Wed 20 Dec 2028 13:04:00 UTC, planned"),)


def test_a_moment_without_any_instant_names_its_neighbours() -> None:
    answer = explain_no_beat(make_schedule_record(), NOW - MINUTE, (make_beat_record(), None), NOW, UTC_ZONE)

    assert "no beat due at Thu 26 Mar 13:03:00 UTC (not_due)" in answer.text
    assert answer.facts == (
        ("before", "Thu 26 Mar 09:04:00 UTC, ran"),
        ("after", "Thu 26 Mar 13:08:00 UTC, planned"),
    )


def test_a_run_tells_its_cause_its_lateness_and_its_beat() -> None:
    late = make_run_record(due_at=NOW - 5 * MINUTE, source=Source.CATCH_UP, attempt=2)

    answer = explain_run(late, TRACE, NOW, UTC_ZONE)

    facts = dict(answer.facts)
    assert answer.text == "triage/standup run 0009 was caused by catch-up."
    assert facts["started"] == "Thu 26 Mar 13:03:00 UTC, 4m late, attempt 2"
    assert facts["beat"] == "0007, cron:2026-03-26T13:03:00Z"
    assert len(answer.steps) == 2


def test_a_run_by_hand_is_not_explained_by_the_schedule_s_own_trace() -> None:
    answer = explain_run(make_run_record(source=Source.MANUAL, origin="human:you"), TRACE, NOW, UTC_ZONE)

    assert answer.text == "triage/standup run 0009 was caused by manual by human:you."
    assert answer.steps == ()


def test_what_fails_says_how_its_last_run_ended() -> None:
    record = make_schedule_record(failures=2, last_status=RunStatus.TIMED_OUT, last_error="it took longer than 2s")

    answer = explain_next(record, NOW, has_live_node=True)

    assert answer.last == "timed_out 1m ago: it took longer than 2s"
    assert serialize_explanation(answer)["last"] == answer.last


def test_a_run_in_less_than_a_second_is_now() -> None:
    soon = make_schedule_record(next_run_at=NOW + timedelta(milliseconds=400))

    assert explain_next(soon, NOW, has_live_node=True).text == "next run now because of baseline-interval"


def test_no_preview_is_shown_while_no_node_runs() -> None:
    served, down = (
        serialize_explanation(explain_next(make_schedule_record(), NOW, has_live_node=each)) for each in (True, False)
    )

    assert served["then"] == ["2026-03-26T13:13:00Z", "2026-03-26T13:18:00Z"]
    assert down["then"] == []


def test_an_instant_whose_run_is_going_says_so() -> None:
    going = make_run_record(status=RunStatus.RUNNING, finished_at=None)
    past = BeatHistory(beat=make_beat_record(outcome=BeatOutcome.RUNNING, runs=(9,), settled_at=None), runs=(going,))

    answer = explain_instant(make_schedule_record(), past, NOW, UTC_ZONE)

    assert answer.facts == (("running", "0009 running"),)


def test_a_run_says_on_which_node_it_was() -> None:
    details = RunDetails(response=None, usage={}, session="", note="", host="attic", pid=4121, version="0.1.0")

    answer = explain_run(make_run_record(), TRACE, NOW, UTC_ZONE, details)

    assert ("node", "attic, pid 4121, herdbeat 0.1.0") in answer.facts
