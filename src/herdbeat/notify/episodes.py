"""Episodes: one message when a condition begins, one when it ends, never one per beat. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from herdbeat.domain.notification import RECOVERED, ActiveCondition, ChannelRules, ConditionKind, Episode
from herdbeat.domain.outbox import DeliveryKind, NewDelivery
from herdbeat.timestamps import format_timestamp

QUIET_MINUTES = timedelta(minutes=5)
"""A condition that is gone for so long is over. If it returns earlier, it is not reported again."""

MAX_NAMED_SUBJECTS = 50
_MAX_NAMES_IN_TEXT = 3
_MAX_DETAIL_CHARS = 300
_RECURRING_CONDITIONS = (ConditionKind.LATE, ConditionKind.FAILING, ConditionKind.NODE_LOST, ConditionKind.RATE_LIMITED)
"""Conditions that come and go. The others end when they end."""

_TRANSIENT_CONDITIONS = (ConditionKind.LATE, ConditionKind.NODE_LOST)
"""Conditions that matter only while they last. One that is over before it could be reported never is: a beat that was
late for the moment of a restart, a node that was replaced at once."""

_PHRASES_FOR_ONE = {
    ConditionKind.LATE: "is late",
    ConditionKind.MISSED: "has missed beats",
    ConditionKind.FAILING: "is failing",
    ConditionKind.NEEDS_YOU: "needs you",
    ConditionKind.RATE_LIMITED: "has reached its usage limit",
    ConditionKind.BUDGET: "has used up its budget",
    ConditionKind.NODE_LOST: "is lost",
    ConditionKind.STOPPED: "has stopped",
}
_PHRASES_FOR_MANY = {
    ConditionKind.LATE: "schedules are late",
    ConditionKind.MISSED: "schedules have missed beats",
    ConditionKind.FAILING: "schedules are failing",
    ConditionKind.NEEDS_YOU: "schedules need you",
    ConditionKind.RATE_LIMITED: "accounts have reached their usage limits",
    ConditionKind.BUDGET: "schedules have used up their budgets",
    ConditionKind.NODE_LOST: "nodes are lost",
    ConditionKind.STOPPED: "fleets have stopped",
}


@dataclass(slots=True)
class ChannelStep:
    """What follows for one channel: episodes to open, episodes that have changed, messages to send."""

    opened: list[ActiveCondition] = field(default_factory=list)
    changed: list[Episode] = field(default_factory=list)
    messages: list[NewDelivery] = field(default_factory=list)


def advance_channel(
    rules: ChannelRules,
    episodes: Sequence[Episode],
    active: Iterable[ActiveCondition],
    now: datetime,
    *,
    recovered: AbstractSet[int] = frozenset(),
    silent: AbstractSet[int] = frozenset(),
    public_url: str = "",
) -> ChannelStep:
    """Return what changes, given the live episodes of the channel and what is wrong now.

    `recovered` are schedules that have had two good runs since their condition was gone. Conditions of `silent`
    subjects, which are in a planned pause, are not reported until the pause ends.
    """
    by_key = {(each.kind, each.subject): each for each in active}
    open_keys = {each.key for each in episodes if each.ended_at is None}
    step = ChannelStep(opened=[each for key, each in by_key.items() if key not in open_keys and rules.wants(each)])
    after = [_advance(each, by_key.get(each.key), now, recovered) for each in episodes]
    reported = after if rules.is_quiet(now) else _report(rules, after, now, public_url, step.messages, silent)
    before = {each.id: each for each in episodes}
    step.changed = [each for each in reported if each != before[each.id]]
    return step


def _advance(episode: Episode, active: ActiveCondition | None, now: datetime, recovered: AbstractSet[int]) -> Episode:
    if episode.ended_at is not None:
        return episode
    if active is not None:
        return replace(episode, clear_since=None, detail=active.detail)
    if episode.condition not in _RECURRING_CONDITIONS:
        return replace(episode, ended_at=now)
    since = episode.clear_since or now
    is_over = now - since >= QUIET_MINUTES or episode.schedule_id in recovered
    return replace(episode, clear_since=since, ended_at=now if is_over else None)


def _report(
    rules: ChannelRules,
    episodes: list[Episode],
    now: datetime,
    public_url: str,
    messages: list[NewDelivery],
    silent: AbstractSet[int],
) -> list[Episode]:
    """Return the episodes after the messages that are due now, which are added to `messages`."""
    reported: dict[int, Episode] = {}
    for condition in ConditionKind:
        of_kind = [each for each in episodes if each.condition is condition]
        dropped = [each for each in of_kind if _is_dropped(rules, each, silent)]
        reported |= {each.id: replace(each, told_at=now, end_told_at=now) for each in dropped}
        of_kind = [each for each in of_kind if each.id not in reported and each.schedule_id not in silent]
        begun = [each for each in of_kind if _is_unreported(each, now)]
        if begun and any(now - each.opened_at >= rules.group_within for each in begun):
            messages.append(build_message(rules, condition, begun, now, public_url))
            reported |= {
                each.id: replace(each, told_at=now, end_told_at=now if each.ended_at else None) for each in begun
            }
        ended = [each for each in of_kind if each.ended_at and not each.end_told_at and (each.told_at or each.acked_by)]
        unwanted = [each for each in ended if each.acked_by or not rules.tells_end]
        reported |= {each.id: replace(each, end_told_at=now) for each in unwanted}
        ended = [each for each in ended if each.id not in reported]
        if any(each.ended_at is not None and now - each.ended_at >= rules.group_within for each in ended):
            messages.append(build_message(rules, condition, ended, now, public_url, is_end=True))
            reported |= {each.id: replace(each, end_told_at=now) for each in ended}
    return [reported.get(each.id, each) for each in episodes]


def _is_dropped(rules: ChannelRules, episode: Episode, silent: AbstractSet[int]) -> bool:
    """Return whether an episode is over and nobody needs to hear of it any more."""
    if episode.told_at is not None or episode.ended_at is None:
        return False
    if episode.schedule_id in silent or episode.snoozed_until is not None:
        return True
    return episode.condition in _TRANSIENT_CONDITIONS and not rules.is_quiet(episode.opened_at)


def _is_unreported(episode: Episode, now: datetime) -> bool:
    """Return whether the beginning of an episode has to be reported. One that may be over waits until that is known."""
    is_passing = (
        episode.condition in _TRANSIENT_CONDITIONS and episode.clear_since is not None and episode.ended_at is None
    )
    return episode.told_at is None and not episode.acked_by and not _is_snoozed(episode, now) and not is_passing


def _is_snoozed(episode: Episode, now: datetime) -> bool:
    return episode.snoozed_until is not None and episode.snoozed_until > now


def build_message(
    rules: ChannelRules,
    condition: ConditionKind,
    episodes: Sequence[Episode],
    now: datetime,
    public_url: str = "",
    *,
    is_end: bool = False,
) -> NewDelivery:
    """Return one message about all of these episodes, which have one condition.

    Its id follows from the first one, and from when that was snoozed to: a repetition then is a message of its own.
    """
    count, since = len(episodes), min(each.began_at for each in episodes)
    one = episodes[0] if count == 1 else None
    schedule = one.subject if one is not None and one.schedule_id is not None else None
    payload: dict[str, object] = {
        "type": f"herdbeat.{RECOVERED if is_end else condition}",
        "timestamp": format_timestamp(now),
        "condition": RECOVERED if is_end else str(condition),
        "was": str(condition) if is_end else None,
        "schedule": schedule,
        "subject": one.subject if one is not None else None,
        "schedules": [each.subject for each in episodes[:MAX_NAMED_SUBJECTS]],
        "count": count,
        "ended": 0 if is_end else sum(each.ended_at is not None for each in episodes),
        "since": format_timestamp(since),
        "text": describe_episodes(condition, episodes, is_end=is_end),
        "url": _build_url(public_url, schedule),
    }
    first = min(episodes, key=lambda each: each.id)
    identity = f"{rules.name}:{condition}:{is_end}:{first.id}"
    if first.snoozed_until is not None:
        identity += f":{format_timestamp(first.snoozed_until)}"
    return build_notification(rules.name, identity, payload, name="recovered" if is_end else str(condition))


def build_notification(channel: str, identity: str, payload: Mapping[str, object], *, name: str) -> NewDelivery:
    """Return a message to a channel. The same identity gives the same id: two nodes that say it say it once."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return NewDelivery(
        message_id=f"msg_{digest}",
        channel=channel,
        kind=DeliveryKind.NOTIFICATION,
        name=name,
        spec={"notify": channel},
        payload=payload,
    )


def describe_episodes(condition: ConditionKind, episodes: Sequence[Episode], *, is_end: bool = False) -> str:
    """Return for example `backup is failing: exit status 1` or `12 schedules are failing: a, b, c and 9 more`."""
    if len(episodes) == 1:
        (episode,) = episodes
        if is_end:
            return f"{episode.subject} is well again: it {_past(condition)}"
        detail = " ".join(episode.detail.split())[:_MAX_DETAIL_CHARS]
        over = " (over by now)" if episode.ended_at else ""
        return f"{episode.subject} {_PHRASES_FOR_ONE[condition]}{f': {detail}' if detail else ''}{over}"
    names = ", ".join(each.subject for each in episodes[:_MAX_NAMES_IN_TEXT])
    rest = len(episodes) - _MAX_NAMES_IN_TEXT
    more = f" and {rest:,} more" if rest > 0 else ""
    if is_end:
        return f"{len(episodes):,} are well again ({condition}): {names}{more}"
    ended = sum(each.ended_at is not None for each in episodes)
    over = f" ({ended:,} of them are over by now)" if ended else ""
    return f"{len(episodes):,} {_PHRASES_FOR_MANY[condition]}{over}: {names}{more}"


def _past(condition: ConditionKind) -> str:
    return (
        _PHRASES_FOR_ONE[condition].replace("is ", "was ", 1).replace("has ", "had ", 1).replace("needs", "needed", 1)
    )


def _build_url(public_url: str, schedule: str | None) -> str | None:
    if not public_url:
        return None
    if schedule is None:
        return public_url
    target, _, name = schedule.partition("/")
    return f"{public_url}/schedules/{target}/{name or 'default'}"
