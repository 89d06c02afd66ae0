"""`herdbeat changes`: who changed what, the newest first."""

import json
from collections.abc import Mapping
from functools import partial

from herdbeat.domain.change import Change, Facts
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import near_time, short_label
from herdbeat.faces.cli.pages import Listing, Window, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.history import change_object, find_changes


def run(given: Given, world: World) -> int:
    listing = Listing(
        noun="changes",
        find=partial(_find, given.word(0)),
        as_object=change_object,
        headings=["WHEN", "WHO", "WHAT", "OF", "HOW"],
        row=_row,
        shrink=(4, 3, 1),
    )
    return show_page(given, world, listing)


def _find(selector: str | None, ledger: Ledger, window: Window) -> list[Change]:
    return find_changes(ledger.opened(), selector, since=window.since, before=window.before, limit=window.limit)


def _row(terminal: Terminal, ledger: Ledger, change: Change, *, is_brief: bool) -> list[str]:  # noqa: ARG001
    when = near_time(change.at, ledger.now, ledger.zone)
    subject = printable(short_label(change.subject))
    return [when, printable(change.who), change.what, subject, printable(_how(change.before, change.after))]


def _how(before: Facts | None, after: Facts | None) -> str:
    """Only what differs: `until 16:04 → 18:04`."""
    old, new = before or {}, after or {}
    names = dict.fromkeys([*old, *new])
    return ", ".join(_difference(name, old, new) for name in names if _value(old.get(name)) != _value(new.get(name)))


def _difference(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> str:
    was, will = _value(old.get(name)), _value(new.get(name))
    return f"{name} {was} → {will or '–'}" if was else f"{name} {will}"


def _value(value: object) -> str:
    """Empty for what is not there, or says nothing."""
    if value in (None, "", []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
