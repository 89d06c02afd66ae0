"""Commands about notifications: acknowledge and snooze episodes, send a test message."""

from dataclasses import replace
from datetime import datetime

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.notification import Episode
from herdbeat.notify.episodes import build_notification
from herdbeat.service.commands.base import ChangeEpisodes, EpisodesChanged, MessageQueued, SendTestMessage
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import Transaction
from herdbeat.timestamps import format_timestamp


def change_episodes(
    tx: Transaction,
    now: datetime,
    who: str,
    command: ChangeEpisodes,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> EpisodesChanged:
    """Acknowledge or snooze the open episodes of these subjects, in all channels. Without subjects: all of them."""
    subjects = set(command.subjects)
    found = [
        each for each in tx.episode_list_live() if each.ended_at is None and (not subjects or each.subject in subjects)
    ]
    tx.episode_change_many([_change(each, who, command) for each in found])
    after: dict[str, object] = {"reason": command.reason}
    after |= {"until": format_timestamp(command.until)} if command.until else {}
    after |= {"cleared": True} if command.clear else {}
    names = sorted({each.subject for each in found})
    what = ChangeKind.ACK if command.until is None else ChangeKind.SNOOZE
    tx.add_changes([Change(at=now, who=who, what=what, subject=name, after=after) for name in names])
    return EpisodesChanged(changed=len(found))


def _change(episode: Episode, who: str, command: ChangeEpisodes) -> Episode:
    if command.clear:
        return replace(episode, acked_by="", snoozed_until=None)
    if command.until is None:
        return replace(episode, acked_by=who)
    return replace(episode, snoozed_until=command.until, told_at=None)  # it is to be told again then


def send_test_message(
    tx: Transaction,
    now: datetime,
    who: str,
    command: SendTestMessage,
    environment: Environment,
) -> MessageQueued:
    """Put a test message into the outbox: it takes the same way as every other."""
    payload: dict[str, object] = {
        "type": "herdbeat.test",
        "timestamp": format_timestamp(now),
        "condition": "test",
        "schedule": None,
        "since": format_timestamp(now),
        "text": f"This is a test message of herdbeat, sent by {who}.",
        "url": None,
    }
    message = build_notification(command.channel, f"test:{environment.event_id}", payload, name="test")
    tx.outbox_add([message], now)
    return MessageQueued(message_id=message.message_id)
