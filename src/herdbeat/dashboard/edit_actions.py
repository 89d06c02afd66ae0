"""Changes of schedules that no file defines: edited with the next runs before and after, deleted, and restored."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

from fastapi import Response
from fastapi.responses import HTMLResponse

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.bootstrap.remote_specs import edit_remote_schedule
from herdbeat.dashboard.app import FormContext, redirect_with_notice
from herdbeat.dashboard.hidden_prompts import require_complete, show_prompt
from herdbeat.dashboard.notices import PageNotice, UndoAction
from herdbeat.dashboard.render import format_count, render
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.records import ScheduleOutline, ScheduleRecord
from herdbeat.domain.target import CreatedVia, is_unmanaged
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import Conflict, HerdbeatError, UsageError
from herdbeat.service.commands.base import DeleteSchedule, NewSchedule, UpsertSchedule
from herdbeat.service.commands.fleet import compute_version, require_unmanaged
from herdbeat.service.queries.details import find_target
from herdbeat.service.queries.expressions import UpcomingRun, parse_expression
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.service.queries.upcoming import iter_edited_runs, load_upcoming

PREVIEWED_RUNS = 5
MAX_DELETED = 500
"""Schedules that one form deletes: each is a transaction of its own."""

TIMING_KEYS = {"interval": "every", "cron": "cron", "delay": "at"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EditForm:
    """What the form of a schedule says, or would say before it is changed."""

    timing: str
    timezone: str
    prompt: str
    is_enabled: bool


def describe_stored(stored: NewSchedule) -> EditForm:
    """Return a stored schedule as its form shows it."""
    return EditForm(
        timing=write_timing(stored.plan.trigger),
        timezone=stored.plan.policies.zone.key,
        prompt=show_prompt(stored.brief.prompt or ""),
        is_enabled=stored.enabled,
    )


def write_timing(trigger: Trigger) -> str:
    """Return a timing as one would type it; empty for a schedule that waits for events."""
    options = trigger.options()
    return next((str(options[name]) for name in ("every", "expression", "run_at") if name in options), "")


def edit_schedule(context: FormContext) -> Response:
    """Show the next runs before and after on a page of its own; once that is confirmed, change the schedule."""
    with context.host.open() as handle:
        record = find_schedule(handle.require_reader(), context.get("name"))
        require_unmanaged(record.label, record.origin)
        stored = load_stored(handle, record)
        before, form = describe_stored(stored), _read_form(context)
        version = compute_version(stored)
        try:
            edited = _build_edit(context, handle, record, stored, form)
        except HerdbeatError as error:
            return _show_edit(context, record, form, version, error=error)
        if edited == stored:
            raise Conflict("Nothing changed: it was so before.", hint="Change a field first.")
        if context.get("confirmed") != "1":
            runs = _list_runs(handle, record), _list_new_runs(f"{record.target}/{record.name}", edited, handle.now)
            return _show_edit(
                context,
                record,
                form,
                version,
                runs=runs,
                changes=_list_changes(before, form, has_prompt=bool(context.all("prompt"))),
            )
    command = UpsertSchedule(
        what=ChangeKind.EDIT,
        target=record.target,
        name=record.name,
        new_schedule=edited,
        way=CreatedVia.API,
        reason=context.get("reason")[:2_000],
        expected=context.get("version") or version,
    )
    context.host.deliver(context.visitor.actor, command)
    notice = PageNotice(
        text=f"{record.label} changed.",
        actor=context.visitor.actor.name,
        command_line=format_update_command(record.label, before, form),
        undo=(UndoAction(command=_restore(ChangeKind.EDIT, record, stored), label="1 schedule"),),
    )
    return redirect_with_notice(context, notice)


def delete_schedules(
    context: FormContext, records: Sequence[ScheduleRecord | ScheduleOutline], search: str
) -> PageNotice:
    """Delete those that no file defines. Those of a file are named and stay."""
    del search  # the command line would take one name at a time
    if len(records) > MAX_DELETED:
        raise UsageError(f"At most {MAX_DELETED} schedules can be deleted at once.", hint="Narrow the filter.")
    with context.host.open() as handle:
        found = [find_schedule(handle.require_reader(), f"{each.target}/{each.name}") for each in records]
        own = [each for each in found if is_unmanaged(each.origin)]
        stored = {each.id: load_stored(handle, each) for each in own}
    undo = []
    for each in own:
        context.host.deliver(context.visitor.actor, DeleteSchedule(target=each.target, name=each.name))
        undo.append(UndoAction(command=_restore(ChangeKind.ADD, each, stored[each.id]), label=each.label))
    kept = [each.label for each in found if not is_unmanaged(each.origin)]
    subject = own[0].label if len(own) == 1 else format_count(len(own), "schedule")
    text = f"{subject} deleted; the history is kept." if own else "Nothing was deleted."
    if kept:
        text = f"{text} {format_count(len(kept), 'schedule')} of a file stay: remove them there."
    return PageNotice(
        text=text,
        actor=context.visitor.actor.name,
        command_line=f"herdbeat delete {shlex.quote(own[0].label)}" if len(own) == 1 else "",
        undo=tuple(undo),
        is_refusal=bool(kept),
    )


def load_stored(handle: FleetHandle, record: ScheduleRecord) -> NewSchedule:
    brief = handle.require_reader().run_specs([record.id])[record.id]
    return NewSchedule(plan=record.plan, brief=brief, enabled=record.enabled)


def _restore(what: ChangeKind, record: ScheduleRecord, stored: NewSchedule) -> UpsertSchedule:
    return UpsertSchedule(
        what=what, target=record.target, name=record.name, new_schedule=stored, way=CreatedVia.API, reason="undo"
    )


def _read_form(context: FormContext) -> EditForm:
    return EditForm(
        timing=context.get("timing").strip()[:200],
        timezone=context.get("timezone").strip()[:100],
        prompt=context.get("prompt").replace("\r\n", "\n"),
        is_enabled=context.get("enabled") == "1",
    )


def _build_edit(
    context: FormContext, handle: FleetHandle, record: ScheduleRecord, stored: NewSchedule, form: EditForm
) -> NewSchedule:
    """Only what differs is written, so that what the form does not show stays. Raises what a wrong value raises."""
    before = describe_stored(stored)
    document: dict[str, object] = {}
    if form.timezone != before.timezone:
        document["timezone"] = form.timezone
    if form.timing != before.timing:
        document |= _read_timing(form)
    if context.visitor.can_administer and context.all("prompt") and form.prompt.strip() != before.prompt.strip():
        require_complete(form.prompt, stored.brief.prompt or "")
        document["prompt"] = form.prompt
    if form.is_enabled != before.is_enabled:
        document["enabled"] = form.is_enabled
    if not document:
        return stored
    kind = find_target(handle.require_reader(), record.target, handle.now).target.kind
    return edit_remote_schedule(stored, kind, (record.target, record.name), document, context.host.config_source)


def _read_timing(form: EditForm) -> Mapping[str, object]:
    trigger = parse_expression(form.timing, ZoneInfo("UTC"))
    if trigger is None:
        raise UsageError(
            f'"{form.timing}" is no timing.', hint='Write a duration such as "10m", or cron such as "0 9 * * 1-5".'
        )
    return {TIMING_KEYS[trigger.kind.value]: form.timing}


def _list_changes(before: EditForm, after: EditForm, *, has_prompt: bool) -> list[tuple[str, str, str]]:
    rows = [
        ("timing", before.timing, after.timing),
        ("time zone", before.timezone, after.timezone),
        *([("prompt", before.prompt, after.prompt)] if has_prompt else []),
        ("enabled", str(before.is_enabled).lower(), str(after.is_enabled).lower()),
    ]
    return [row for row in rows if row[1].strip() != row[2].strip()]


def _list_runs(handle: FleetHandle, record: ScheduleRecord) -> tuple[UpcomingRun, ...]:
    has_live_node = handle.holder_pid is not None
    view = load_upcoming(
        handle.require_reader(),
        f"{record.target}/{record.name}",
        handle.now,
        start=handle.now,
        count=PREVIEWED_RUNS,
        has_live_node=has_live_node,
    )
    return view.instants


def _list_new_runs(name: str, edited: NewSchedule, now: datetime) -> tuple[UpcomingRun, ...]:
    """Return them within the limits, hours and bounds of the schedule; a disabled one has none."""
    return tuple(islice(iter_edited_runs(name, edited.plan, now), PREVIEWED_RUNS)) if edited.enabled else ()


def _show_edit(
    context: FormContext,
    record: ScheduleRecord,
    form: EditForm,
    version: str,
    *,
    runs: tuple[tuple[UpcomingRun, ...], tuple[UpcomingRun, ...]] = ((), ()),
    changes: Sequence[tuple[str, str, str]] = (),
    error: HerdbeatError | None = None,
) -> Response:
    page = render(
        "edit.html",
        context.frame,
        record=record,
        form=form,
        version=context.get("version") or version,
        before=runs[0],
        after=runs[1],
        rows=range(max(len(runs[0]), len(runs[1]))),
        changes=changes,
        error=error,
        has_prompt=bool(context.all("prompt")),
        reason=context.get("reason")[:2_000],
        back=context.return_to,
    )
    return HTMLResponse(page, status_code=200 if error is None else 422)


def format_update_command(label: str, before: EditForm, after: EditForm) -> str:
    words = ["herdbeat", "update", label]
    if before.timing != after.timing and (trigger := parse_expression(after.timing, ZoneInfo("UTC"))) is not None:
        words += [f"--{TIMING_KEYS[trigger.kind.value]}", after.timing]
    if before.timezone != after.timezone:
        words += ["--tz", after.timezone]
    if before.prompt.strip() != after.prompt.strip():
        words += ["--prompt", after.prompt if len(after.prompt) < 60 else f"{after.prompt[:60]}…"]
    if before.is_enabled != after.is_enabled:
        words += ["--enabled", str(after.is_enabled).lower()]
    return shlex.join(words)
