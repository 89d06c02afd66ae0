"""Episodes by a table of moments: what a channel is told, and how often."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.notification import ActiveCondition, ChannelRules, ConditionKind, Episode
from herdbeat.domain.policies import ActiveHours
from herdbeat.notify.episodes import advance_channel

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
RULES = ChannelRules(name="ops", conditions=frozenset(ConditionKind), tells_end=True)


def failing(subject: str = "backup", failures: int = 3, tags: tuple[str, ...] = ()) -> ActiveCondition:
    return ActiveCondition(
        kind=ConditionKind.FAILING,
        subject=subject,
        since=NOON,
        detail="exit 1",
        schedule_id=7,
        tags=tags,
        failures=failures,
    )


@dataclass
class FakeChannel:
    """A channel over time: the ledger of its episodes, and the messages that it got."""

    rules: ChannelRules = RULES
    now: datetime = NOON
    episodes: list[Episode] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def check(
        self,
        *active: ActiveCondition,
        after: timedelta = timedelta(seconds=5),
        recovered: bool = False,
        is_silent: bool = False,
    ) -> None:
        self.now += after
        live = [each for each in self.episodes if each.end_told_at is None]
        good = frozenset({7}) if recovered else frozenset()
        step = advance_channel(
            self.rules,
            live,
            active,
            self.now,
            recovered=good,
            silent=frozenset({7} if is_silent else ()),
            public_url="https://herd",
        )
        changed = {each.id: each for each in step.changed}
        self.episodes = [changed.get(each.id, each) for each in self.episodes]
        for each in step.opened:
            self.episodes.append(
                Episode(
                    id=len(self.episodes) + 1,
                    channel="ops",
                    condition=each.kind,
                    subject=each.subject,
                    detail=each.detail,
                    began_at=each.since,
                    opened_at=self.now,
                    schedule_id=each.schedule_id,
                )
            )
        self.messages += [dict(each.payload) for each in step.messages]
        self.ids += [each.message_id for each in step.messages]

    def check_for(self, span: timedelta, *active: ActiveCondition) -> None:
        for _ in range(span // timedelta(seconds=5)):
            self.check(*active)


MINUTE = timedelta(minutes=1)


def test_a_schedule_that_fails_for_an_hour_is_one_message() -> None:
    channel = FakeChannel()

    channel.check_for(60 * MINUTE, failing())

    (message,) = channel.messages
    assert (message["condition"], message["schedule"], message["count"]) == ("failing", "backup", 1)
    assert message["since"] == "2026-03-02T12:00:00Z"
    assert message["text"] == "backup is failing: exit 1"
    assert message["url"] == "https://herd/schedules/backup/default"


def test_the_end_is_told_after_five_quiet_minutes() -> None:
    channel = FakeChannel()
    channel.check_for(MINUTE, failing())

    channel.check_for(4 * MINUTE)
    early = len(channel.messages)
    channel.check_for(2 * MINUTE)

    assert early == 1
    assert [(each["condition"], each["was"]) for each in channel.messages] == [
        ("failing", None),
        ("recovered", "failing"),
    ]


def test_two_good_runs_end_an_episode_before_that() -> None:
    channel = FakeChannel()
    channel.check_for(MINUTE, failing())

    channel.check(recovered=True)
    channel.check_for(MINUTE)

    assert [each["condition"] for each in channel.messages] == ["failing", "recovered"]


def test_a_schedule_that_flaps_is_one_episode() -> None:
    channel = FakeChannel()

    for _ in range(10):
        channel.check_for(MINUTE, failing())
        channel.check_for(2 * MINUTE)

    assert [each["condition"] for each in channel.messages] == ["failing"]


def test_ten_thousand_schedules_that_fail_at_once_are_one_message_with_a_count() -> None:
    channel = FakeChannel()
    many = [failing(f"job-{number}") for number in range(10_000)]

    channel.check(*many[:4_000])
    channel.check(*many)  # the others fail some seconds later
    channel.check(*many, after=MINUTE)
    channel.check(*many, after=MINUTE)

    (message,) = channel.messages
    assert message["count"] == 10_000
    assert message["text"] == "10,000 schedules are failing: job-0, job-1, job-2 and 9,997 more"
    assert len(message["schedules"]) == 50


def test_a_channel_is_told_of_failures_only_after_so_many() -> None:
    channel = FakeChannel(replace(RULES, failing_after=3))

    channel.check_for(MINUTE, failing(failures=2))
    early = list(channel.messages)
    channel.check_for(MINUTE, failing(failures=3))

    assert early == []
    assert len(channel.messages) == 1


def test_a_channel_for_a_tag_is_not_told_of_others() -> None:
    channel = FakeChannel(replace(RULES, tags=frozenset({"prod"})))

    channel.check_for(MINUTE, failing("backup", tags=("prod",)), failing("toy"))

    assert [each["schedule"] for each in channel.messages] == ["backup"]


def test_what_begins_in_quiet_hours_is_told_at_their_end_and_summed_up() -> None:
    quiet = ActiveHours(opens=time(22), closes=time(7), zone=ZoneInfo("UTC"))
    channel = FakeChannel(replace(RULES, quiet_hours=quiet), now=NOON + timedelta(hours=11))
    channel.check_for(MINUTE, failing("a"), failing("b"))
    channel.check_for(10 * MINUTE, failing("b"))  # a is over
    night = list(channel.messages)

    channel.check(failing("b"), after=timedelta(hours=9))

    assert night == []
    (message,) = channel.messages
    assert (message["count"], message["ended"]) == (2, 1)


def test_a_channel_that_does_not_want_ends_is_told_of_none() -> None:
    channel = FakeChannel(replace(RULES, tells_end=False))
    channel.check_for(MINUTE, failing())

    channel.check_for(10 * MINUTE)

    assert len(channel.messages) == 1
    assert channel.episodes[0].end_told_at is not None


def test_an_acknowledged_episode_is_not_told_any_more() -> None:
    channel = FakeChannel()
    channel.check_for(MINUTE, failing())
    channel.episodes = [replace(each, acked_by="human:you") for each in channel.episodes]

    channel.check_for(10 * MINUTE)

    assert len(channel.messages) == 1


def test_a_snoozed_episode_is_told_later_if_it_is_not_over() -> None:
    channel = FakeChannel()
    channel.check(failing())
    until = channel.now + 10 * MINUTE
    channel.episodes = [replace(each, snoozed_until=until) for each in channel.episodes]

    channel.check_for(9 * MINUTE, failing())
    early = len(channel.messages)
    channel.check_for(2 * MINUTE, failing())

    assert (early, len(channel.messages)) == (0, 1)


def test_an_episode_that_is_snoozed_after_its_message_is_told_again_then_if_it_is_not_over() -> None:
    channel = FakeChannel()
    channel.check_for(MINUTE, failing())
    until = channel.now + 10 * MINUTE
    channel.episodes = [replace(each, snoozed_until=until, told_at=None) for each in channel.episodes]

    channel.check_for(9 * MINUTE, failing())
    early = len(channel.messages)
    channel.check_for(60 * MINUTE, failing())

    assert (early, len(channel.messages)) == (1, 2)
    assert len(set(channel.ids)) == 2  # one id would be taken for a repetition, and not be sent


def test_a_snoozed_episode_that_is_over_by_then_is_not_told() -> None:
    channel = FakeChannel()
    channel.check(failing())
    until = channel.now + 60 * MINUTE
    channel.episodes = [replace(each, snoozed_until=until) for each in channel.episodes]

    channel.check_for(120 * MINUTE)

    assert channel.messages == []
    assert channel.episodes[0].end_told_at is not None


@pytest.mark.parametrize(
    ("night", "hours"), [(datetime(2026, 3, 28, tzinfo=UTC), 8), (datetime(2026, 10, 24, tzinfo=UTC), 10)]
)
def test_quiet_hours_over_midnight_follow_the_clock_in_the_nights_it_changes(night: datetime, hours: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    quiet = ActiveHours(opens=time(22), closes=time(7), zone=zone)
    begin = datetime.combine(night.date(), time(22), zone).astimezone(UTC)
    channel = FakeChannel(replace(RULES, quiet_hours=quiet), now=begin)

    channel.check_for(timedelta(hours=hours) - MINUTE, failing())
    by_night = len(channel.messages)
    channel.check_for(2 * MINUTE, failing())

    assert (by_night, len(channel.messages)) == (0, 1)


def test_two_nodes_that_tell_the_same_use_the_same_id() -> None:
    one, other = FakeChannel(), FakeChannel()
    for channel in (one, other):
        channel.check_for(MINUTE, failing())

    assert one.ids == other.ids


def test_a_condition_that_comes_and_goes_in_a_planned_pause_is_not_told() -> None:
    channel = FakeChannel()

    channel.check(failing(), is_silent=True)
    channel.check(failing(), after=timedelta(minutes=10), is_silent=True)
    channel.check(after=timedelta(minutes=1), is_silent=True)
    channel.check(after=timedelta(minutes=6), is_silent=True)
    channel.check(after=timedelta(hours=1))

    assert channel.messages == []


def test_a_condition_that_outlasts_a_planned_pause_is_told_at_its_end() -> None:
    channel = FakeChannel()
    channel.check(failing(), is_silent=True)
    channel.check(failing(), after=timedelta(hours=1), is_silent=True)
    assert channel.messages == []

    channel.check(failing())

    assert [each["condition"] for each in channel.messages] == ["failing"]


def condition(kind: ConditionKind, subject: str = "backup") -> ActiveCondition:
    return ActiveCondition(kind=kind, subject=subject, since=NOON, schedule_id=7)


@pytest.mark.parametrize("kind", [ConditionKind.FAILING, ConditionKind.MISSED, ConditionKind.NEEDS_YOU])
def test_what_was_wrong_for_a_moment_is_told_with_its_end(kind: ConditionKind) -> None:
    channel = FakeChannel()
    channel.check(replace(condition(kind), failures=1))
    channel.check(recovered=True)

    channel.check_for(10 * MINUTE)

    assert [(each["condition"], each["ended"]) for each in channel.messages] == [(str(kind), 1)]
    assert "(over by now)" in str(channel.messages[0]["text"])


@pytest.mark.parametrize("kind", [ConditionKind.LATE, ConditionKind.NODE_LOST])
def test_a_lateness_of_a_restart_is_not_told(kind: ConditionKind) -> None:
    channel = FakeChannel()
    channel.check(condition(kind))

    channel.check_for(10 * MINUTE)

    assert channel.messages == []
    assert channel.episodes[0].end_told_at is not None


def test_an_account_that_is_held_again_at_once_is_one_episode() -> None:
    channel, held = FakeChannel(), condition(ConditionKind.RATE_LIMITED, "claude")
    for _ in range(5):
        channel.check_for(10 * MINUTE, held)
        channel.check_for(MINUTE)

    channel.check_for(10 * MINUTE)

    assert [each["condition"] for each in channel.messages] == ["rate_limited", "recovered"]
