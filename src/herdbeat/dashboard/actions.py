"""Forms that change something: each builds a command, shows its command line, and offers to undo it."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from fastapi import Response
from fastapi.responses import RedirectResponse

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.dashboard.app import FormContext, redirect_with_notice
from herdbeat.dashboard.confirmations import show_confirmation
from herdbeat.dashboard.edit_actions import delete_schedules
from herdbeat.dashboard.notices import PageNotice, UndoAction
from herdbeat.dashboard.preferences import COOKIE_AGE, KEYS_COOKIE, SEEN_COOKIE, THEME_COOKIE, ZONE_COOKIE
from herdbeat.dashboard.render import format_count
from herdbeat.dashboard.run_actions import run_schedule
from herdbeat.domain.records import ScheduleOutline, ScheduleRecord
from herdbeat.durations import format_duration, parse_duration
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.service.commands.base import (
    CancelSchedules,
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ReleaseAccount,
    ResetSchedules,
    ResumeSchedules,
    ScheduleChanges,
    ScheduleCommand,
    SkipBeats,
    TriggerSchedule,
)
from herdbeat.service.commands.dispatch import undo_steps
from herdbeat.service.queries.schedule_search import find_outlines, parse_search
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.timestamps import format_timestamp

SelectedSchedule: TypeAlias = ScheduleRecord | ScheduleOutline
MAX_RUN_THREADS = 8
MAX_NAMED = 5
"""Schedules that a command line names one by one."""

_DONE_WORDS = {
    "pause": "paused",
    "resume": "resumed",
    "disable": "disabled",
    "enable": "enabled",
    "hint": "given a hint",
    "clear_hints": "without hints",
    "reset": "reset",
    "skip": "set to skip the next beat",
}


def change_schedules(context: FormContext) -> Response:
    """Change the schedules that a form names, or all that a filter finds.

    What cannot be undone, and what concerns a whole filter, is asked first on a page of its own.
    """
    action, names, search = context.get("action"), context.all("name"), context.get("filter")
    if action == "run" and len(names) == 1:
        return run_schedule(context, names[0])
    with context.host.open() as handle:
        records = _select(handle, names, search)
        expected = context.get("expect")
        if not names and expected != str(len(records)):
            raise Conflict(
                f"{format_count(len(records), 'schedule')} match now, not {expected or 'the number you saw'}.",
                hint="Look at the list again.",
            )
        change = _build_change(action, context, handle.now)
    labels = [each.label for each in records]
    if context.get("confirmed") != "1" and (action in CONFIRMED_ACTIONS or not names):
        return show_confirmation(
            context,
            question=f"{_QUESTIONS.get(action, action.capitalize())} {_describe_subject(labels, search, names)}?",
            note=_NOTES.get(action, ""),
            labels=labels,
            command_line=format_command_line(action, change, labels, search),
        )
    if change is None:
        return redirect_with_notice(context, ACTIONS_ON_MANY[action](context, records, search))
    command = replace(change, schedules=tuple(each.id for each in records))
    delivery = context.host.deliver(context.visitor.actor, command)
    return redirect_with_notice(context, _describe_changes(context, command, delivery.result, records))


def _describe_subject(labels: Sequence[str], search: str, names: Sequence[str]) -> str:
    if len(labels) == 1:
        return labels[0]
    count = format_count(len(labels), "schedule")
    if names:
        return count
    return f"all {count} that match {search.strip()}" if search.strip() else f"all {count}"


def _run_many(context: FormContext, records: Sequence[SelectedSchedule], search: str) -> PageNotice:
    """Run each once, beside its own times. What cannot start now waits for room."""
    reason = context.get("reason")[:2_000]

    def start(record: SelectedSchedule) -> bool:
        command = TriggerSchedule(schedule=record.id, queue=True, reason=reason)
        return context.host.deliver(context.visitor.actor, command).result.success

    # Each is a transaction of its own; in threads the node commits many of them together.
    with ThreadPoolExecutor(MAX_RUN_THREADS) as pool:
        started = sum(pool.map(start, records))
    refused = len(records) - started
    text = f"{format_count(started, 'schedule')} run now, or as soon as there is room."
    return PageNotice(
        text=f"{text} {refused} could not." if refused else text,
        actor=context.visitor.actor.name,
        command_line=format_command_line("run", None, [each.label for each in records], search),
        is_refusal=bool(refused),
    )


def _cancel_many(context: FormContext, records: Sequence[SelectedSchedule], search: str) -> PageNotice:
    ids = tuple(each.id for each in records)
    command = CancelSchedules(schedules=ids, reason=context.get("reason")[:2_000])
    result = context.host.deliver(context.visitor.actor, command).result
    runs, beats = sum(len(each.runs) for each in result.items), sum(each.called_off for each in result.items)
    return PageNotice(
        text=f"{format_count(runs, 'run')} cancelled, {format_count(beats, 'waiting beat')} called off.",
        actor=context.visitor.actor.name,
        command_line=format_command_line("cancel", None, [each.label for each in records], search),
    )


ACTIONS_ON_MANY: Mapping[str, Callable[[FormContext, Sequence[SelectedSchedule], str], PageNotice]] = {
    "run": _run_many,
    "cancel": _cancel_many,
    "delete": delete_schedules,
}
"""What is not one command that changes schedules and can be inverted."""

CONFIRMED_ACTIONS = frozenset({"cancel", "delete"})
_QUESTIONS = {
    "cancel": "Cancel every run and waiting beat of",
    "delete": "Delete",
    "hint": "Give a hint to",
    "clear_hints": "Clear the hints of",
    "skip": "Skip the next beat of",
}
_NOTES = {
    "cancel": "The programs are stopped. What they did stays done.",
    "delete": "Their history is kept. Schedules of a file cannot be deleted here: remove them from the file.",
}


def _select(handle: FleetHandle, names: Sequence[str], search: str) -> Sequence[SelectedSchedule]:
    reader = handle.require_reader()
    if names:
        return [find_schedule(reader, each) for each in dict.fromkeys(names)]
    found = find_outlines(reader, parse_search(search), handle.now, has_live_node=handle.holder_pid is not None)
    if not found:
        raise NotFound("No schedule matches.", hint="Change the filter.")
    return found


def _build_change(action: str, context: FormContext, now: datetime) -> ScheduleCommand | None:
    """Return the command without its schedules; None for what is more than one command.

    Raises UsageError for an action that does not exist, and what the durations raise.
    """
    if action in ACTIONS_ON_MANY:
        return None
    builders: dict[str, Callable[[], ScheduleCommand]] = {
        "pause": lambda: PauseSchedules(until=_parse_end(context, now)),
        "resume": ResumeSchedules,
        "disable": DisableSchedules,
        "enable": EnableSchedules,
        "hint": lambda: _build_hint(context, now),
        "clear_hints": ClearHints,
        "reset": ResetSchedules,
        "skip": lambda: SkipBeats(count=1),
    }
    if action not in builders:
        raise UsageError(
            f'There is no action "{action[:40]}".', hint=f"Use one of {', '.join((*builders, *ACTIONS_ON_MANY))}."
        )
    return replace(builders[action](), reason=context.get("reason")[:2_000])


def _parse_end(context: FormContext, now: datetime) -> datetime | None:
    text = context.get("for").strip()
    return now + parse_duration(text) if text else None


def _build_hint(context: FormContext, now: datetime) -> HintSchedules:
    every, run_in, lasts = (context.get(name).strip() for name in ("every", "run_in", "lasts"))
    if bool(every) == bool(run_in):
        raise UsageError("A hint is an interval or a time.", hint="Fill in one of the two.")
    return HintSchedules(
        every=parse_duration(every).total_seconds() if every else None,
        at=(now + parse_duration(run_in)).astimezone(UTC) if run_in else None,
        lasts=parse_duration(lasts).total_seconds() if lasts else None,
    )


def _describe_changes(
    context: FormContext, command: ScheduleCommand, result: ScheduleChanges, records: Sequence[SelectedSchedule]
) -> PageNotice:
    ids = {each.label: each.id for each in records}
    changed, refused = result.changed, result.refused
    undo = tuple(
        UndoAction(
            command=replace(step.command, schedules=tuple(ids[each] for each in step.labels)),
            label=format_count(len(step.labels), "schedule"),
        )
        for step in undo_steps(command, result)
    )
    subject = changed[0].schedule if len(changed) == 1 else format_count(len(changed), "schedule")
    text = f"{subject} {_DONE_WORDS[str(command.what)]}." if changed else "Nothing changed: it was so before."
    if refused:
        text = f"{text} {refused[0].schedule}: {refused[0].refused}. {refused[0].hint}"
    return PageNotice(
        text=text,
        actor=context.visitor.actor.name,
        command_line=format_command_line(
            str(command.kind), command, [each.label for each in records], context.get("filter")
        ),
        undo=undo,
        is_refusal=bool(refused),
    )


def format_command_line(action: str, command: ScheduleCommand | None, labels: Sequence[str], search: str = "") -> str:
    """Return what does the same in a terminal; empty if that cannot be said in one line."""
    if command is None and action in ("delete", "run") and len(labels) > 1:
        return ""  # they take one name
    if search == "" and len(labels) > MAX_NAMED:
        subject = "--all"
    elif len(labels) <= MAX_NAMED:
        subject = shlex.join(labels)
    elif search.startswith("tag:") and " " not in search:
        subject = f"--tag {shlex.quote(search.removeprefix('tag:'))}"
    else:
        return ""
    if command is None:
        return f"herdbeat {action} {subject}"
    reason = f" --reason {shlex.quote(command.reason)}" if command.reason else ""
    match command:
        case PauseSchedules(until=until):
            end = f" --until {format_timestamp(until.replace(microsecond=0))}" if until else ""
            return f"herdbeat pause {subject}{end}{reason}"
        case HintSchedules(every=every, at=at, lasts=lasts):
            wish = f"--every {format_duration(timedelta(seconds=every))}" if every else ""
            wish = f"--at {format_timestamp(at.replace(microsecond=0))}" if at else wish
            length = f" --for {format_duration(timedelta(seconds=lasts))}" if lasts else ""
            return f"herdbeat hint {subject} {wish}{length}{reason}"
        case ClearHints():
            return f"herdbeat hint {subject} --clear"
        case _:
            return f"herdbeat {command.kind} {subject}{reason}"


def release_account(context: FormContext) -> Response:
    account = context.get("account")
    context.host.deliver(context.visitor.actor, ReleaseAccount(account=account))
    notice = PageNotice(
        text=f"Account {account} is used again.",
        actor=context.visitor.actor.name,
        command_line=f"herdbeat resume --account {shlex.quote(account)}",
    )
    return redirect_with_notice(context, notice)


def undo_change(context: FormContext) -> Response:
    """Restore what was before a change, once."""
    actor = context.visitor.actor
    notice = context.board.take(context.get("notice"), actor.name)
    if notice is None or not notice.undo:
        raise Conflict("There is nothing to undo any more.", hint="Change the schedules themselves.")
    changed = 0
    for action in notice.undo:
        result = context.host.deliver(actor, action.command).result
        changed += len(result.changed) if isinstance(result, ScheduleChanges) else 1
    text = f"Undone: {format_count(changed, 'schedule')} restored."
    return redirect_with_notice(context, PageNotice(text=text, actor=actor.name))


def save_preferences(context: FormContext) -> Response:
    answer: Response = RedirectResponse(context.return_to, status_code=303)
    cookies = {"zone": ZONE_COOKIE, "theme": THEME_COOKIE, "keys": KEYS_COOKIE, "seen": SEEN_COOKIE}
    age = int(COOKIE_AGE.total_seconds())
    for field, cookie in cookies.items():
        value = next(iter(context.all(field)), None)
        if value is not None and (value == "" or (value.isascii() and value.isalnum() and len(value) <= 20)):
            answer.set_cookie(cookie, value, max_age=age if value else 0, path=context.base or "/", samesite="strict")
    return answer
