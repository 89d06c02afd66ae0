"""The documented rules of the governor, branch by branch, with their boundaries."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.support.governor_builders import (
    NOW,
    Bounds,
    FirstRun,
    Jitter,
    at,
    cron,
    every,
    hours,
    limits,
    make_hint,
    state,
)

from herdbeat.domain.decision import Decision, Source, StepKind
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.durations import humanize
from herdbeat.governor import Pause, ScheduleState, decide
from herdbeat.triggers import Webhook
from herdbeat.triggers.delay import Delay

SECOND = timedelta(seconds=1)


def window(start: str, until: str) -> PauseWindow:
    return PauseWindow(id=1, from_at=at(start), until=at(until), by="human:you", reason="maintenance")


def next_run_and_source(decision: Decision) -> tuple[datetime | None, str]:
    return decision.next_run_at, decision.source


@pytest.mark.parametrize(
    ("what", "given", "next_run_at", "source"),
    [
        ("baseline interval", state(every("5m")), at("03:05"), "baseline-interval"),
        ("baseline cron", state(cron("0 9 * * *")), at("09:00"), "baseline-cron"),
        ("cron at its own instant: the next one", state(cron("0 3 * * *")), at("03:00", day=3), "baseline-cron"),
        # hints
        ("interval hint beats a slower baseline", state(every("5m"), hints=(make_hint(every="30s"),)), at("03:00:30"), "ai-interval"),
        ("interval hint beats a faster baseline", state(every("5m"), hints=(make_hint(every="10m"),)), at("03:10"), "ai-interval"),
        ("interval hint beats cron", state(cron("1 3 * * *"), hints=(make_hint(every="10m"),)), at("03:10"), "ai-interval"),
        ("one-shot before the baseline", state(every("5m"), hints=(make_hint(at=at("03:02")),)), at("03:02"), "ai-oneshot"),
        ("one-shot after the baseline", state(every("5m"), hints=(make_hint(at=at("03:07")),)), at("03:05"), "baseline-interval"),
        ("tie: baseline before one-shot", state(every("5m"), hints=(make_hint(at=at("03:05")),)), at("03:05"), "baseline-interval"),
        ("one-shot at this very moment", state(every("5m"), hints=(make_hint(at=NOW),)), NOW, "ai-oneshot"),
        ("an instant before the baseline is earlier", state(every("5m"), hints=(make_hint(at=at("03:04:59.999999")),)), at("03:04:59.999999"), "ai-oneshot"),
        ("interval hint as long as the baseline", state(every("5m"), hints=(make_hint(every="5m"),)), at("03:05"), "ai-interval"),
        ("one-shot before a cron instant", state(cron("0 9 * * *"), hints=(make_hint(at=at("08:59")),)), at("08:59"), "ai-oneshot"),
        ("tie: cron before one-shot", state(cron("0 9 * * *"), hints=(make_hint(at=at("09:00")),)), at("09:00"), "baseline-cron"),
        ("of two one-shots the earlier", state(every("1h"), hints=(make_hint(at=at("03:20")), make_hint(at=at("03:10")))), at("03:10"), "ai-oneshot"),
        ("past one-shot runs now", state(every("5m"), hints=(make_hint(at=at("02:00")),)), NOW, "ai-oneshot"),
        ("both: the interval hint is earlier", state(every("1h"), hints=(make_hint(every="2m"), make_hint(at=at("03:03")))), at("03:02"), "ai-interval"),
        ("both: the one-shot is earlier", state(every("1h"), hints=(make_hint(every="5m"), make_hint(at=at("03:03")))), at("03:03"), "ai-oneshot"),
        ("both, tie: interval before one-shot", state(every("1h"), hints=(make_hint(every="3m"), make_hint(at=at("03:03")))), at("03:03"), "ai-interval"),
        ("both: the earlier baseline is ignored", state(every("1m"), hints=(make_hint(every="5m"), make_hint(at=at("03:03")))), at("03:03"), "ai-oneshot"),
        # expiry
        ("expired hint", state(every("5m"), hints=(make_hint(every="30s", lasts="10m", since=at("02:41")),)), at("03:05"), "baseline-interval"),
        ("expires this very moment", state(every("5m"), hints=(make_hint(every="30s", lasts="10m", since=at("02:50")),)), at("03:05"), "baseline-interval"),
        ("expires in a second", state(every("5m"), hints=(make_hint(every="30s", lasts="1s"),)), at("03:00:30"), "ai-interval"),
        ("expires a microsecond from now", state(every("5m"), hints=(make_hint(every="30s", lasts="10m", since=at("02:50:00.000001")),)), at("03:00:30"), "ai-interval"),
        ("both hints, and both are over", state(every("5m"), hints=(make_hint(every="30s", lasts="1m", since=at("02:00")), make_hint(at=at("03:01"), lasts="1m", since=at("02:00")))), at("03:05"), "baseline-interval"),
        ("both hints, and the pace is over", state(every("5m"), hints=(make_hint(every="30s", lasts="1m", since=at("02:00")), make_hint(at=at("03:01")))), at("03:01"), "ai-oneshot"),
        ("both hints, and the one-shot is over", state(every("5m"), hints=(make_hint(every="30s"), make_hint(at=at("03:00:10"), lasts="1m", since=at("02:00")))), at("03:00:30"), "ai-interval"),
        ("a hint that was over when the run ended", state(every("5m"), anchor=at("02:59"), hints=(make_hint(every="30s", lasts="5m", since=at("02:55")),)), at("03:04"), "baseline-interval"),
        # rank
        ("a person outranks a rule", state(every("1h"), hints=(make_hint(every="1m"), make_hint("human:you", every="2m"))), at("03:02"), "ai-interval"),
        ("an agent outranks the planner", state(every("1h"), hints=(make_hint("planner", every="1m"), make_hint("agent:x", every="2m"))), at("03:02"), "ai-interval"),
        ("a planner's one-shot under a rule's pace is shadowed", state(every("1h"), hints=(make_hint(every="5m"), make_hint("planner", at=at("03:01")))), at("03:05"), "ai-interval"),
        ("a person's one-shot over a rule's pace is heard", state(every("1h"), hints=(make_hint(every="5m"), make_hint("human:you", at=at("03:01")))), at("03:01"), "ai-oneshot"),
        # limits
        ("min moves the baseline", state(every("10s"), limits=limits("15s")), at("03:00:15"), "clamped-min"),
        ("min moves a hint", state(every("5m"), hints=(make_hint(every="5s"),), limits=limits("15s")), at("03:00:15"), "clamped-min"),
        ("exactly min is not clamped", state(every("15s"), limits=limits("15s")), at("03:00:15"), "baseline-interval"),
        ("max moves the baseline", state(every("1h"), limits=limits(None, "15m")), at("03:15"), "clamped-max"),
        ("max moves a hint", state(every("5m"), hints=(make_hint(every="30m"),), limits=limits(None, "15m")), at("03:15"), "clamped-max"),
        ("exactly max is not clamped", state(every("15m"), limits=limits(None, "15m")), at("03:15"), "baseline-interval"),
        ("max moves cron", state(cron("0 9 * * *"), limits=limits(None, "1h")), at("04:00"), "clamped-max"),
        ("a microsecond under min is clamped", state(every("15s"), hints=(make_hint(at=at("03:00:14.999999")),), limits=limits("15s")), at("03:00:15"), "clamped-min"),
        ("min holds back a one-shot", state(every("5m"), hints=(make_hint(at=at("03:00:10")),), limits=limits("15s")), at("03:00:15"), "clamped-min"),
        ("max does not hurry a one-shot that is early enough", state(every("5m"), hints=(make_hint(at=at("03:01")),), limits=limits(None, "15m")), at("03:01"), "ai-oneshot"),
        ("min moves cron off its calendar", state(cron("* * * * *"), limits=limits("90s")), at("03:01:30"), "clamped-min"),
        ("max beats the backoff", state(every("5m"), failures=5, limits=limits(None, "15m")), at("03:15"), "clamped-max"),
        ("min beats a faster pace than any backoff", state(every("1s"), failures=1, limits=limits("15s")), at("03:00:15"), "clamped-min"),
        ("equal limits set the pace", state(every("1h"), limits=limits("5m", "5m")), at("03:05"), "clamped-max"),
        ("max wins where the limits cross", state(every("1h"), limits=limits("30m", "15m")), at("03:15"), "clamped-max"),
        # Retry-After of the target
        ("a floor holds the baseline back", state(every("5m"), not_before=at("03:08")), at("03:08"), "clamped-min"),
        ("a floor holds a hint back", state(every("5m"), not_before=at("03:08"), hints=(make_hint(every="1s"),)), at("03:08"), "clamped-min"),
        ("a floor beats max_interval", state(every("5m"), not_before=at("03:08"), limits=limits(None, "1m")), at("03:08"), "clamped-min"),
        ("a floor at the instant itself changes nothing", state(every("5m"), not_before=at("03:05")), at("03:05"), "baseline-interval"),
        ("a floor a microsecond later", state(every("5m"), not_before=at("03:05:00.000001")), at("03:05:00.000001"), "clamped-min"),
        ("a floor that is over", state(every("5m"), not_before=at("02:00")), at("03:05"), "baseline-interval"),
        ("a floor moves a delay, which stays one", state(Delay(run_at=at("03:05")), is_new=True, not_before=at("03:08")), at("03:08"), "delay"),
        # pause
        ("pause beats everything", state(every("5m"), hints=(make_hint(every="1s"),), limits=limits(None, "1m"), pause=Pause(until=at("18:00"))), at("18:00"), "paused"),
        ("pause that ends now is over", state(every("5m"), pause=Pause(until=NOW)), at("03:05"), "baseline-interval"),
        ("pause that ends in a second holds", state(every("5m"), pause=Pause(until=NOW + SECOND)), NOW + SECOND, "paused"),
        ("pause that ends in a microsecond holds", state(every("5m"), pause=Pause(until=at("03:00:00.000001"))), at("03:00:00.000001"), "paused"),
        ("pause that ended a microsecond ago is over", state(every("5m"), pause=Pause(until=at("02:59:59.999999"))), at("03:05"), "baseline-interval"),
        ("pause ends before the run: the run is decided then", state(every("5m"), pause=Pause(until=at("03:01"))), at("03:01"), "paused"),
        ("pause without end", state(every("5m"), pause=Pause()), None, "paused"),
        ("inside a planned pause", state(every("5m"), windows=(window("02:00", "04:00"),)), at("04:00"), "paused"),
        ("a planned pause that begins now", state(every("5m"), windows=(window("03:00", "04:00"),)), at("04:00"), "paused"),
        ("a planned pause that ends now is over", state(every("5m"), windows=(window("02:00", "03:00"),)), at("03:05"), "baseline-interval"),
        ("a planned pause that begins later", state(every("5m"), windows=(window("03:04", "04:00"),)), at("03:05"), "baseline-interval"),
        # never ran
        ("a new interval is due at once", state(every("5m"), is_new=True), NOW, "first-run"),
        ("first_run: after_interval waits", state(every("5m"), is_new=True, first_run=FirstRun.AFTER_INTERVAL), at("03:05"), "baseline-interval"),
        ("no limit delays the first run", state(every("5m"), is_new=True, limits=limits("1m")), NOW, "first-run"),
        ("a new cron waits for its time", state(cron("0 9 * * *"), is_new=True), at("09:00"), "baseline-cron"),
        # decided again without a run: counted from the last completion
        ("from the last completion", state(every("5m"), anchor=at("02:58")), at("03:03"), "baseline-interval"),
        ("overdue runs now", state(every("5m"), anchor=at("02:00")), NOW, "baseline-interval"),
        ("a hint that makes it overdue acts at once", state(every("1h"), anchor=at("02:40"), hints=(make_hint(every="30s"),)), NOW, "ai-interval"),
        ("max already passed: now", state(every("1h"), anchor=at("02:20"), limits=limits(None, "15m")), NOW, "clamped-max"),
        # one-shots
        ("delay in the future", state(Delay(run_at=at("09:00")), is_new=True), at("09:00"), "delay"),
        ("delay in the past fires at once", state(Delay(run_at=at("01:00")), is_new=True), NOW, "delay"),
        ("delay that has fired is done", state(Delay(run_at=at("01:00"))), None, "delay"),
        ("limits do not move a delay", state(Delay(run_at=at("09:00")), is_new=True, limits=limits(None, "1m")), at("09:00"), "delay"),
        ("a hint does not bring a done delay back", state(Delay(run_at=at("01:00")), hints=(make_hint(every="30s"),)), None, "delay"),
        ("webhook waits for an event", state(Webhook()), None, "webhook"),
        ("the wake of an agent fires what waits for an event", state(Webhook(), hints=(make_hint("agent:x", at=at("03:10")),)), at("03:10"), "ai-oneshot"),
        ("no other hint fires what waits for an event", state(Webhook(), hints=(make_hint("human:you", at=at("03:10")), make_hint(every="1m"))), None, "webhook"),
        # bounds
        ("an interval waits for starts_at", state(every("5m"), is_new=True, bounds=Bounds(starts_at=at("12:00"))), at("12:00"), "first-run"),
        ("cron takes its first instant from starts_at on", state(cron("0 * * * *"), bounds=Bounds(starts_at=at("11:30"))), at("12:00"), "baseline-cron"),
        ("an instant at starts_at itself counts", state(cron("0 * * * *"), bounds=Bounds(starts_at=at("12:00"))), at("12:00"), "baseline-cron"),
        ("exactly at ends_at still runs", state(every("5m"), bounds=Bounds(ends_at=at("03:05"))), at("03:05"), "baseline-interval"),
        ("past ends_at is the end", state(every("5m"), bounds=Bounds(ends_at=at("03:04"))), None, "baseline-interval"),
        ("a microsecond past ends_at is the end", state(every("5m"), bounds=Bounds(ends_at=at("03:04:59.999999"))), None, "baseline-interval"),
        ("a microsecond before starts_at is held", state(every("5m"), bounds=Bounds(starts_at=at("03:05:00.000001"))), at("03:05:00.000001"), "baseline-interval"),
        ("a hint cannot run it past its end", state(every("1h"), hints=(make_hint(every="10m"),), bounds=Bounds(ends_at=at("03:05"))), None, "ai-interval"),
        ("max_runs reached is the end", state(every("5m"), runs=3, bounds=Bounds(max_runs=3)), None, "baseline-interval"),
        ("one run left", state(every("5m"), runs=2, bounds=Bounds(max_runs=3)), at("03:05"), "baseline-interval"),
        # active hours
        ("inside the hours", state(every("5m"), active_hours=hours("02:00-04:00")), at("03:05"), "baseline-interval"),
        ("an interval waits for the opening", state(every("5m"), active_hours=hours("07:00-22:00")), at("07:00"), "baseline-interval"),
        ("cron takes its next instant inside", state(cron("30 * * * *"), active_hours=hours("07:00-22:00")), at("07:30"), "baseline-cron"),
        ("the closing minute is outside", state(every("5m"), active_hours=hours("02:00-03:05")), at("02:00", day=3), "baseline-interval"),
        ("over midnight", state(every("5m"), active_hours=hours("22:00-04:00")), at("03:05"), "baseline-interval"),
        ("a delay waits for the opening and is not lost", state(Delay(at("05:00")), is_new=True, active_hours=hours("07:00-22:00")), at("07:00"), "delay"),
        ("a delay that has passed runs inside the hours, wherever its moment lay", state(Delay(at("01:00")), is_new=True, active_hours=hours("02:00-04:00")), NOW, "delay"),
        ("a cron outside its hours for ever", state(cron("0 3 * * *"), active_hours=hours("07:00-22:00")), None, "baseline-cron"),
        ("the opening lies past the end", state(every("5m"), active_hours=hours("07:00-22:00"), bounds=Bounds(ends_at=at("06:00"))), None, "baseline-interval"),
        # off
        ("disabled", state(every("5m"), enabled=False), None, "baseline-interval"),
        ("disabled and paused", state(every("5m"), enabled=False, pause=Pause(until=at("09:00"))), None, "baseline-interval"),
    ],
)  # fmt: skip
def test_the_decision_table_of_the_specification(
    what: str, given: ScheduleState, next_run_at: datetime | None, source: str
) -> None:
    assert next_run_and_source(decide(NOW, given)) == (next_run_at, source), what


@pytest.mark.parametrize(
    ("failures", "times"),
    [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 32), (7, 32), (8, 32), (9, 32)],
)
def test_an_interval_backs_off_up_to_thirty_two_times(failures: int, times: int) -> None:
    decision = decide(NOW, state(every("5m"), failures=failures))

    assert next_run_and_source(decision) == (NOW + times * timedelta(minutes=5), "baseline-interval")


@pytest.mark.parametrize("failures", [0, 5])
def test_cron_and_hints_do_not_back_off(failures: int) -> None:
    by_cron = decide(NOW, state(cron("0 9 * * *"), failures=failures))
    by_hint = decide(NOW, state(every("5m"), failures=failures, hints=(make_hint(every="30s"),)))

    assert by_cron.next_run_at == at("09:00")
    assert by_hint.next_run_at == at("03:00:30")


def test_the_backoff_is_at_most_a_century() -> None:
    decision = decide(NOW, state(every("36500d"), failures=5))

    assert decision.next_run_at == NOW + timedelta(days=36_500)


def test_max_interval_that_cuts_the_backoff_short_is_noted() -> None:
    decision = decide(NOW, state(every("5m"), failures=3, limits=limits(None, "15m")))

    assert next_run_and_source(decision) == (at("03:15"), "clamped-max")
    assert [(step.kind, step.text, step.at) for step in decision.trace] == [
        (StepKind.CANDIDATE, "baseline every 5m x8 backoff after 3 failures = 40m", at("03:40")),
        (StepKind.CLAMP, "max_interval 15m moves it earlier", at("03:15")),
        (StepKind.NOTE, "max_interval 15m limits the backoff at 2 failures and more", None),
    ]
    assert decision.notes == ("max_interval 15m limits the backoff at 2 failures and more",)


def test_the_trace_shows_winner_losers_shadowed_and_expired() -> None:
    surge = make_hint("rule:surge", every="30s", lasts="20m", since=at("02:51"), reason="queue at 150")
    planner = make_hint("planner", every="10m", lasts="40m")
    old = make_hint("human:you", every="1m", lasts="10m", since=at("02:41"))

    decision = decide(NOW, state(every("5m"), hints=(old, planner, surge)))

    assert decision.origin == "rule:surge"
    assert [(step.kind, step.text, step.at, step.won) for step in decision.trace] == [
        (StepKind.CANDIDATE, "baseline every 5m", at("03:05"), False),
        (StepKind.CANDIDATE, 'hint every 30s by rule:surge, 11m left "queue at 150"', at("03:00:30"), True),
        (StepKind.SHADOWED, "hint every 10m by planner, 40m left", at("03:10"), False),
        (StepKind.EXPIRED, "hint every 1m by human:you, expired", at("03:01"), False),
    ]


def test_a_pause_is_traced_with_author_and_reason_after_the_candidates() -> None:
    held = state(every("5m"), pause=Pause(until=at("18:00"), by="human:you", reason="db maintenance"))

    decision = decide(NOW, held)

    assert [step.text for step in decision.trace] == ["baseline every 5m", 'paused by human:you: "db maintenance"']
    assert decision.due_at is None  # a time to decide again, not a due instant


def test_a_hint_that_ends_before_the_run_is_decided_again_at_its_end() -> None:
    decision = decide(NOW, state(every("5m"), hints=(make_hint(every="10m", lasts="4m"),)))

    assert decision.next_run_at == at("03:10")
    assert decision.revisit_at == decision.wake_at == at("03:04")
    again = decide(at("03:04"), state(every("5m"), hints=(make_hint(every="10m", lasts="4m"),)))
    assert next_run_and_source(again) == (at("03:05"), Source.BASELINE_INTERVAL)


def test_a_hint_that_outlives_the_run_needs_no_revisit() -> None:
    decision = decide(NOW, state(every("5m"), hints=(make_hint(every="30s"),)))

    assert decision.revisit_at is None
    assert decision.wake_at == decision.next_run_at


def test_the_newer_of_two_hints_of_one_rank_wins() -> None:
    older = make_hint("human:ann", every="1m", since=at("02:50"), lasts="2h")
    newer = make_hint("human:bob", every="2m", since=at("02:55"), lasts="2h")

    decision = decide(NOW, state(every("1h"), hints=(newer, older)))

    assert next_run_and_source(decision) == (at("03:02"), "ai-interval")


def test_jitter_moves_the_run_but_not_the_due_instant() -> None:
    plain = state(cron("0 9 * * *"), jitter=Jitter(span=timedelta(minutes=10)))

    decision = decide(NOW, plain)

    assert decision.due_at == at("09:00")
    assert decision.next_run_at is not None
    assert at("09:00") < decision.next_run_at < at("09:10")
    later = decide(NOW + SECOND, plain)
    assert (decision.next_run_at, decision.trace) == (later.next_run_at, later.trace)  # stable per schedule and beat


def test_jitter_stays_before_the_next_instant() -> None:
    wide = state(cron("* * * * *"), jitter=Jitter(span=timedelta(hours=1)))

    decision = decide(NOW, wide)

    assert decision.next_run_at is not None
    assert at("03:01") <= decision.next_run_at < at("03:02")


def test_jitter_spreads_two_schedules_with_one_cron() -> None:
    one = state(cron("0 9 * * *"), jitter=Jitter(share=0.5))
    other = replace(one, schedule="api/other")

    assert decide(NOW, one).next_run_at != decide(NOW, other).next_run_at


def test_jitter_does_not_delay_overdue_or_new_schedules() -> None:
    overdue = decide(NOW, state(every("5m"), anchor=at("02:00"), jitter=Jitter(share=1.0)))
    new = decide(NOW, state(every("5m"), is_new=True, jitter=Jitter(share=1.0)))

    assert overdue.next_run_at == new.next_run_at == NOW


def test_active_hours_that_open_inside_a_dst_gap_open_right_after_it() -> None:
    evening = datetime.fromisoformat("2026-03-28T23:00:00+00:00")
    berlin = state(every("5m"), anchor=evening, active_hours=hours("02:30-20:00", "Europe/Berlin"))

    decision = decide(evening, berlin)

    assert decision.next_run_at == datetime.fromisoformat("2026-03-29T01:00:00+00:00")  # 03:00 CEST


def test_a_past_delay_keeps_its_nominal_instant() -> None:
    decision = decide(NOW, state(Delay(run_at=at("01:00")), is_new=True))

    assert (decision.next_run_at, decision.due_at) == (NOW, at("01:00"))


def test_a_disabled_schedule_has_no_next_run_even_with_hints() -> None:
    decision = decide(NOW, state(every("5m"), enabled=False, hints=(make_hint(every="30s", lasts="1s"),)))

    assert decision.wake_at is None
    assert decision.trace[-1].kind is StepKind.OFF


def test_the_text_of_a_jitter_agrees_with_a_clock_that_shows_seconds() -> None:
    for schedule in map(str, range(50)):
        spread = replace(state(cron("0 9 * * *"), jitter=Jitter(span=timedelta(minutes=10))), schedule=schedule)

        decision = decide(NOW, spread)

        assert decision.next_run_at is not None
        assert decision.due_at is not None
        shown = humanize(decision.next_run_at.replace(microsecond=0) - decision.due_at)
        assert decision.trace[-1].text == f"jitter 10m adds {shown}"


def test_a_delay_that_waits_for_its_hours_keeps_its_due_instant() -> None:
    decision = decide(NOW, state(Delay(at("05:00")), is_new=True, active_hours=hours("07:00-22:00")))

    assert (decision.due_at, decision.next_run_at) == (at("05:00"), at("07:00"))


def test_jitter_stays_before_the_end_of_its_schedule() -> None:
    last = state(cron("0 9 * * *"), jitter=Jitter(span=timedelta(hours=1)), bounds=Bounds(ends_at=at("09:00:01")))

    decision = decide(NOW, last)

    assert decision.due_at == at("09:00")
    assert decision.next_run_at is not None
    assert decision.next_run_at <= at("09:00:01")


def test_a_cron_without_instants_in_its_active_hours_is_revisited_at_its_end() -> None:
    closed = state(cron("0 * * * *"), active_hours=hours("07:00-22:00"), bounds=Bounds(ends_at=at("06:00")))

    decision = decide(NOW, closed)

    assert next_run_and_source(decision) == (None, "baseline-cron")
    assert decision.wake_at == at("06:00")
    assert decide(at("06:00"), closed).wake_at is None
