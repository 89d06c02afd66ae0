"""`herdbeat changes`: who changed what, the newest first."""

import json
import re
from functools import partial

from herdbeat.domain.change import Change, ChangeData
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import format_time, short_label
from herdbeat.faces.cli.pages import ListingSpec, PageRequest, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import Context
from herdbeat.moments import parse_timestamp
from herdbeat.service.history import find_changes, serialize_change

_TIMESTAMP_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")


def run_changes(args: ParsedArgs, context: Context) -> int:
    spec = ListingSpec(
        noun="changes",
        find=partial(_find_changes, args.positional(0)),
        as_object=serialize_change,
        headings=["WHEN", "WHO", "WHAT", "OF", "HOW"],
        row=_change_row,
        shrink=(3, 4, 1),
    )
    return show_page(args, context, spec)


def _find_changes(selector: str | None, handle: FleetHandle, page_request: PageRequest) -> list[Change]:
    return find_changes(
        handle.require_reader(),
        selector,
        since=page_request.since,
        before=page_request.before,
        limit=page_request.limit,
    )


def _change_row(terminal: Terminal, handle: FleetHandle, change: Change, *, is_brief: bool) -> list[str]:  # noqa: ARG001
    when = format_time(change.at, handle.now, handle.zone)
    subject = printable(short_label(change.subject))
    return [
        when,
        printable(change.who),
        change.what,
        subject,
        printable(_format_differences(handle, change.before, change.after)),
    ]


def _format_differences(handle: FleetHandle, before: ChangeData | None, after: ChangeData | None) -> str:
    """Only what differs: `until 16:04 → 18:04`."""
    old, new = (
        {name: _format_value(handle, value) for name, value in (facts or {}).items()} for facts in (before, after)
    )
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name, "") != new.get(name, "")]
    return ", ".join(_format_difference(name, old.get(name, ""), new.get(name, "")) for name in names)


def _format_difference(name: str, old_value: str, new_value: str) -> str:
    return f"{name} {old_value} → {new_value or '–'}" if old_value else f"{name} {new_value}"


def _format_value(handle: FleetHandle, value: object) -> str:
    """Empty for what is not there, or says nothing. A moment is told as on every other screen."""
    if value in (None, "", []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return (
        format_time(parse_timestamp(value), handle.now, handle.zone) if _TIMESTAMP_PATTERN.fullmatch(value) else value
    )
