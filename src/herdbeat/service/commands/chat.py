"""A message of a chat: a beat of the agent's chat schedule, or a command in words. One transaction, one answer."""

import json
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.chat.base import ChatVerb, VerbKind, parse_verb
from herdbeat.domain.schedule import display_name
from herdbeat.domain.trigger import TriggerKind
from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent
from herdbeat.durations import humanize
from herdbeat.errors import HerdbeatError
from herdbeat.scheduler.chat_answers import build_replies
from herdbeat.scheduler.event_intake import enqueue_events
from herdbeat.service.commands.base import (
    Actor,
    CancelPause,
    CancelSchedules,
    ChangeEpisodes,
    ChatReceipt,
    PauseSchedules,
    PlanPause,
    ReceiveChat,
    ResumeSchedules,
    TriggerSchedule,
)
from herdbeat.service.commands.dispatch import Environment, execute
from herdbeat.store.base import Transaction
from herdbeat.time_phrases import parse_future_time, parse_period_end

UTC_ZONE = ZoneInfo("UTC")
MAX_LISTED_PAUSES = 20
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
        tx.outbox_add(build_replies(_build_address(command), reply, f"reply:{command.event_id}"), now)
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
    data = json.dumps({"message": message, "reply_to": _build_address(command)})
    event = IncomingEvent(
        schedule=schedule, event_id=command.event_id, data=data, origin=command.actor_name, kind=TriggerKind.CHAT
    )
    (answer,) = enqueue_events(tx, now, [event])
    return answer


def _build_address(command: ReceiveChat) -> dict[str, object]:
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
    try:
        if verb.kind in (VerbKind.ACK, VerbKind.SNOOZE):
            return _change_episodes(tx, now, actor, verb, environment)
        if verb.kind is VerbKind.PAUSES:
            return _describe_pauses(tx, now)
        if verb.kind is VerbKind.CANCEL_PAUSE:
            ended = execute(tx, now, actor, CancelPause(pause=int(verb.name), reason="chat"), environment)
            return f"{'Ended' if ended.from_at <= now else 'Cancelled'} the planned pause of {ended.selection}."
        schedules = _find_schedules(tx, verb.name)
        return _control_schedules(tx, now, actor, verb, schedules, environment) if schedules else None
    except HerdbeatError as error:
        return f"{error.message} {error.hint}".strip()


def _change_episodes(
    tx: Transaction, now: datetime, actor: Actor, verb: ChatVerb, environment: Environment
) -> str | None:
    until = parse_future_time(verb.lasts or "2h", now, UTC_ZONE) if verb.kind is VerbKind.SNOOZE else None
    changed = execute(tx, now, actor, ChangeEpisodes(subjects=(verb.name,), until=until), environment).changed
    word = "snoozed" if until else "acknowledged"
    return f"{changed} {'episode' if changed == 1 else 'episodes'} {word}." if changed else None


def _describe_pauses(tx: Transaction, now: datetime) -> str:
    lines = [
        f"{each.id}: {each.selection.describe()}, {each.from_at:%Y-%m-%d %H:%M} to {each.until:%Y-%m-%d %H:%M} UTC"
        f"{' (active)' if each.is_active(now) else ''}"
        for each in tx.planned_pauses(now)[:MAX_LISTED_PAUSES]
    ]
    return "\n".join(lines) or "No pause is planned."


def _plan_pause(
    tx: Transaction, now: datetime, actor: Actor, verb: ChatVerb, schedule: int, environment: Environment
) -> str:
    """Plan it by the clock of the schedule. The end counts from the beginning."""
    zone = tx.schedules([schedule])[schedule].plan.policies.zone
    from_at = parse_future_time(verb.begins, now, zone)
    until = parse_period_end(verb.ends or verb.lasts, from_at, now, zone)
    command = PlanPause(from_at=from_at, until=until, names=(verb.name,), reason="chat")
    planned = execute(tx, now, actor, command, environment)
    span = f"from {from_at.astimezone(zone):%Y-%m-%d %H:%M} until {until.astimezone(zone):%Y-%m-%d %H:%M} ({zone.key})"
    return f"{planned.selection} is paused {span}. Undo: pauses cancel {planned.id}"


def _control_schedules(
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
    if verb.begins:
        return _plan_pause(tx, now, actor, verb, schedules[0], environment)
    until = parse_future_time(verb.lasts, now, UTC_ZONE) if verb.lasts else None
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
    rows = tx.schedule_list_by_target([known[0]]) if known is not None else {}
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
