"""A message of a chat: a beat of the agent's chat schedule, or a command in words. One transaction, one answer."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from herdbeat.chat.base import ChatVerb, VerbKind, parse_verb
from herdbeat.domain.schedule import display_name
from herdbeat.domain.trigger import TriggerKind
from herdbeat.domain.webhook import EventAnswer, IncomingEvent
from herdbeat.durations import humanize, parse_duration
from herdbeat.errors import HerdbeatError
from herdbeat.scheduler.chat_answers import build_replies
from herdbeat.scheduler.incoming import enqueue_events
from herdbeat.service.commands.base import (
    Actor,
    CancelSchedules,
    ChangeEpisodes,
    ChatReceipt,
    PauseSchedules,
    ReceiveChat,
    ResumeSchedules,
    TriggerSchedule,
)
from herdbeat.service.commands.dispatch import Environment, execute
from herdbeat.store.base import Transaction

_REPLIES = {
    EventAnswer.FULL: "Too many messages wait. Try again in a moment.",
    EventAnswer.DISABLED: "The chat of this agent is disabled.",
    EventAnswer.UNKNOWN: "This agent has no chat schedule any more.",
}


def receive_chat(
    tx: Transaction,
    now: datetime,
    who: str,  # noqa: ARG001 - as all handlers; the author of a message is its own actor
    command: ReceiveChat,
    environment: Environment,
) -> ChatReceipt:
    """Take a message. The request id of the command makes it unique: delivered twice, it is answered once."""
    verb = parse_verb(command.text)
    environment = replace(environment, request_id="")  # the message has it; what it does is a part of that
    reply = _run_verb(tx, now, command, verb, environment) if verb is not None else None
    if reply is None:
        answer = _enqueue(tx, now, command)
        reply = _REPLIES.get(answer, "")
        accepted = answer is EventAnswer.ACCEPTED
    else:
        answer, accepted = EventAnswer.FILTERED, False
    if reply and not command.replies_inline:
        tx.outbox_add(build_replies(_address(command), reply, f"reply:{command.event_id}"), now)
    return ChatReceipt(accepted=accepted, reply=reply)


def _enqueue(tx: Transaction, now: datetime, command: ReceiveChat) -> EventAnswer:
    schedule = _find_chat_schedule(tx, command.target)
    if schedule is None:
        return EventAnswer.UNKNOWN
    message = {
        "text": command.text,
        "user": command.user,
        "channel": command.channel,
        "thread": command.thread,
        "id": command.message,
    }
    data = json.dumps({"message": message, "reply_to": _address(command)})
    event = IncomingEvent(
        schedule=schedule, event_id=command.event_id, data=data, origin=command.actor_name, kind=TriggerKind.CHAT
    )
    (answer,) = enqueue_events(tx, now, [event])
    return answer


def _address(command: ReceiveChat) -> dict[str, object]:
    return {
        "platform": command.platform,
        "target": command.target,
        "channel": command.channel,
        "thread": command.thread,
        "message": command.message,
        "bot_token_env": command.bot_token_env,
        "has_thread": command.has_thread,
    }


def _find_chat_schedule(tx: Transaction, target: str) -> int | None:
    known = tx.targets().get(target)
    rows = tx.schedule_list_by_target([known[0]]) if known is not None else {}
    return next((number for number, row in rows.values() if row.kind == TriggerKind.CHAT), None)


def _run_verb(
    tx: Transaction, now: datetime, command: ReceiveChat, verb: ChatVerb, environment: Environment
) -> str | None:
    """Return what to reply; None if these words are a message to the agent after all."""
    if verb.kind.needs_user and not command.may_command:
        return None
    if verb.kind is VerbKind.STATUS:
        return _describe_status(tx, now, command.target)
    if verb.kind is VerbKind.STOP:
        return _stop(tx, now, command, environment)
    actor = Actor(name=command.actor_name)
    if verb.kind in (VerbKind.ACK, VerbKind.SNOOZE):
        until = now + parse_duration(verb.lasts or "2h") if verb.kind is VerbKind.SNOOZE else None
        changed = execute(tx, now, actor, ChangeEpisodes(subjects=(verb.name,), until=until), environment).changed
        word = "snoozed" if until else "acknowledged"
        return f"{changed} {'episode' if changed == 1 else 'episodes'} {word}." if changed else None
    schedules = _find_schedules(tx, verb.name)
    if not schedules:
        return None
    try:
        return _control(tx, now, actor, verb, schedules, environment)
    except HerdbeatError as error:
        return f"{error.message} {error.hint}".strip()


def _control(
    tx: Transaction, now: datetime, actor: Actor, verb: ChatVerb, schedules: list[int], environment: Environment
) -> str:
    if verb.kind is VerbKind.RUN:
        if len(schedules) > 1:
            return f"{verb.name} has {len(schedules)} schedules. Name one: {verb.name}/NAME"
        started = execute(tx, now, actor, TriggerSchedule(schedule=schedules[0], reason="chat"), environment)
        if started.success:
            return f"{started.schedule} is due now."
        return f"{started.schedule} was not started: {started.skip_reason}."
    held = tuple(schedules)
    if verb.kind is VerbKind.RESUME:
        result = execute(tx, now, actor, ResumeSchedules(schedules=held, reason="chat"), environment)
        return f"{len(result.changed)} resumed." if result.changed else "Nothing was paused."
    until = now + parse_duration(verb.lasts) if verb.lasts else None
    result = execute(tx, now, actor, PauseSchedules(schedules=held, until=until, reason="chat"), environment)
    end = f"for {verb.lasts}" if verb.lasts else "until resumed"
    if not result.changed:
        return "Already paused." if not result.refused else f"Refused: {result.refused[0].refused}."
    return f"{len(result.changed)} paused {end}. Undo: resume {verb.name}"


def _stop(tx: Transaction, now: datetime, command: ReceiveChat, environment: Environment) -> str:
    schedule = _find_chat_schedule(tx, command.target)
    if schedule is None:
        return _REPLIES[EventAnswer.UNKNOWN]
    result = execute(
        tx, now, Actor(name=command.actor_name), CancelSchedules(schedules=(schedule,), reason="chat"), environment
    )
    runs = [run for each in result.items for run in each.runs]
    waiting = sum(each.called_off for each in result.items)
    if not runs and not waiting:
        return "Nothing runs."
    return f"Stopping {len(runs)} active and {waiting} waiting."


def _find_schedules(tx: Transaction, name: str) -> list[int]:
    target, _, schedule = name.partition("/")
    known = tx.targets().get(target)
    rows: dict[Any, Any] = dict(tx.schedule_list_by_target([known[0]])) if known is not None else {}
    return [number for (_, each), (number, _) in rows.items() if not schedule or each == schedule]


def _describe_status(tx: Transaction, now: datetime, target: str) -> str:
    known = tx.targets().get(target)
    rows = tx.schedule_list_by_target([known[0]]) if known is not None else {}
    snapshots = tx.schedules([number for number, _ in rows.values()])
    lines = []
    for (_, name), (number, _) in rows.items():
        snapshot = snapshots[number]
        state = "running" if snapshot.running else f"failing ({snapshot.failures})" if snapshot.failures else "ok"
        state = "disabled" if not snapshot.enabled else "paused" if snapshot.pause_at(now) else state
        at = snapshot.next_run_at
        when = "waits for an event" if at is None else f"next in {humanize(max(at - now, now - now))}"
        lines.append(f"{display_name(target, name)}: {state}, {when}")
    return "\n".join(lines) or "This agent has no schedules."
