"""Forms of the System page: acknowledge and snooze episodes, test a channel, plan and end pauses."""

import shlex
from datetime import timedelta

from fastapi import Response

from herdbeat.dashboard.app import FormContext, redirect_with_notice
from herdbeat.dashboard.notices import PageNotice, UndoAction
from herdbeat.dashboard.render import format_count
from herdbeat.domain.selection import Selection
from herdbeat.durations import format_duration, parse_duration
from herdbeat.errors import Conflict, UsageError
from herdbeat.service.commands.base import CancelPause, ChangeEpisodes, PlanPause, SendTestMessage
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.time_phrases import parse_future_time, parse_period_end
from herdbeat.timestamps import format_timestamp

DEFAULT_SNOOZE = timedelta(hours=1)


def change_notifications(context: FormContext) -> Response:
    """Acknowledge or snooze the open episodes of a subject, or send a test message to a channel."""
    action, actor = context.get("action"), context.visitor.actor
    if action == "test":
        channel = context.get("channel")
        context.host.deliver(actor, SendTestMessage(channel=channel))
        text = f"A test message is on its way to {channel}."
        line = f"herdbeat notify test {shlex.quote(channel)}"
        return redirect_with_notice(context, PageNotice(text=text, actor=actor.name, command_line=line))
    subjects = tuple(each for each in context.all("subject") if each)
    if not subjects or action not in ("ack", "snooze"):
        raise UsageError("Which episodes?", hint="Use acknowledge or snooze of a line.")
    written = context.get("for").strip()
    length = parse_duration(written) if written else DEFAULT_SNOOZE
    until = context.host.now + length if action == "snooze" else None
    changed = context.host.deliver(actor, ChangeEpisodes(subjects=subjects, until=until)).result.changed
    if not changed:
        raise Conflict("There is no open episode of that name any more.", hint="Look at the list again.")
    end = f" --for {format_duration(length)}" if action == "snooze" else ""
    notice = PageNotice(
        text=f"{format_count(changed, 'episode')} {'snoozed' if action == 'snooze' else 'acknowledged'}.",
        actor=actor.name,
        command_line=f"herdbeat notify {action} {shlex.join(subjects)}{end}",
        undo=(UndoAction(command=ChangeEpisodes(subjects=subjects, clear=True), label=subjects[0]),),
    )
    return redirect_with_notice(context, notice)


def _plan_pause(context: FormContext) -> Response:
    """Plan it by the clock of the fleet. The end counts from the beginning."""
    actor, zone, now = context.visitor.actor, context.host.zone, context.host.now
    what = context.get("what").strip()
    tag = what.removeprefix("tag:") if what.startswith("tag:") else ""
    from_at = parse_future_time(context.get("from"), now, zone)
    until = parse_period_end(context.get("until"), from_at, now, zone)
    selection = Selection(names=() if tag else (what,), tags=(tag,) if tag else ())
    with context.host.open() as handle:
        select_schedules(handle.require_reader(), selection)  # raises NotFound for a name that nothing has
    command = PlanPause(
        from_at=from_at,
        until=until,
        names=selection.names,
        tags=selection.tags,
        reason=context.get("reason")[:2_000],
    )
    planned = context.host.deliver(actor, command).result
    chosen = f"--tag {shlex.quote(tag)}" if tag else shlex.quote(what)
    span = f"--from {format_timestamp(from_at)} --until {format_timestamp(until)}"
    notice = PageNotice(
        text=f"{planned.selection} is paused from {from_at.astimezone(zone):%Y-%m-%d %H:%M} "
        f"until {until.astimezone(zone):%Y-%m-%d %H:%M}.",
        actor=actor.name,
        command_line=f"herdbeat pause {chosen} {span}",
        undo=(UndoAction(command=CancelPause(pause=planned.id), label=planned.selection),),
    )
    return redirect_with_notice(context, notice)


def change_pauses(context: FormContext) -> Response:
    """Plan a pause, end one, or cancel it before it begins. One that has not begun can be planned again."""
    actor, written = context.visitor.actor, context.get("pause")
    if context.get("what").strip():
        return _plan_pause(context)
    if not (written.isascii() and written.isdecimal() and len(written) < 16):
        raise UsageError("Which planned pause?", hint="Use a line of the list.")
    with context.host.open() as handle:
        known = handle.require_reader().planned_pauses(handle.now, pause_id=int(written))
    result = context.host.deliver(actor, CancelPause(pause=int(written))).result
    undo: tuple[UndoAction, ...] = ()
    if known and result.until > context.host.now:
        pause = known[0]
        again = PlanPause(
            from_at=max(pause.from_at, context.host.now),
            until=pause.until,
            names=pause.selection.names,
            tags=pause.selection.tags,
            groups=pause.selection.groups,
            everything=pause.selection.everything,
            reason=pause.reason,
        )
        undo = (UndoAction(command=again, label=result.selection),)
    notice = PageNotice(
        text=f"The planned pause of {result.selection} is cancelled.",
        actor=actor.name,
        command_line=f"herdbeat pauses cancel {written}",
        undo=undo,
    )
    return redirect_with_notice(context, notice)
