"""Making the ledger match the files: the plan first, then the doing. A single file is a part, and removes nothing."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from herdbeat.config import Reading
from herdbeat.config.kinds import FileKind
from herdbeat.domain.change import What
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.origin import Origin, Way
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, CommandSpec, Target
from herdbeat.errors import ConfigError, NotFound, Place, ending
from herdbeat.scheduler.arrange import Arranged, arrange
from herdbeat.scheduler.foresee import Foreseen, Foresight, Stored, foresee, read_stored
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.store.opening import alone_at, audit_at, is_there, store_at
from herdbeat.store.places import LedgerPlace

PARTS = (FileKind.AGENTD_WORKFLOW, FileKind.AGENTD_AGENT, FileKind.HERDCTL_AGENT)
"""Files that are one piece of a fleet, and say nothing about the rest of it."""


def usable(reading: Reading) -> Fleet:
    """The fleet of files without a mistake. Raises ConfigError with all there are: a bad file changes nothing."""
    if reading.errors or reading.fleet is None:
        raise ConfigError(reading.errors)
    return reading.fleet


def part_of(whole: Fleet, reading: Reading, stored: Stored) -> Fleet:
    """A single file as a piece of a fleet: agents first, so a workflow needs one that is there. Raises NotFound.

    What does not lie among the fleet's own files would be taken for removed at the next start. So it is marked.
    """
    piece = usable(reading)
    targets = piece.targets
    if reading.kind is FileKind.AGENTD_WORKFLOW:
        targets = ()
        _refuse_homeless(piece.schedules, {*stored.targets, *(each.name for each in whole.targets)})
    targets = tuple(_seen_from(whole.home, each, piece.home) for each in targets)
    if set(piece.files) <= set(whole.files):
        return replace(whole, targets=targets, schedules=piece.schedules)
    return replace(
        whole,
        targets=tuple(replace(each, origin=_marked(each.origin)) for each in targets),
        schedules=tuple(replace(each, origin=_marked(each.origin)) for each in piece.schedules),
    )


def _seen_from(home: str, target: Target, written: str) -> Target:
    """The same target, with the folder it works in counted from another one."""
    spec = target.spec
    if not isinstance(spec, AgentSpec | CommandSpec) or Path(spec.working_directory).is_absolute():
        return target
    folder = os.path.relpath(Path(written) / spec.working_directory, home)
    return replace(target, spec=replace(spec, working_directory=folder))


def plan_in(path: LedgerPlace, fleet: Fleet, now: datetime, *, is_whole: bool = True) -> Foresight:
    """What applying the fleet to that ledger would do. Nothing is written, and the writer does not wait for it."""
    return foresee(stored_in(path), fleet, now, is_whole=is_whole)


def stored_in(path: LedgerPlace) -> Stored:
    return audit_at(path).peek(read_stored) if is_there(path) else Stored()


def apply_for_later(path: LedgerPlace, fleet: Fleet, now: datetime, who: str, *, is_whole: bool = True) -> Arranged:
    """While nothing runs: written under the state lock. Raises Conflict if something does."""
    with alone_at(path):
        store = store_at(path)
        store.open()
        try:
            return store.write_now(lambda tx: arrange(tx, fleet, now, who, is_whole=is_whole))
        finally:
            store.close()


def plan_object(plan: Foresight) -> dict[str, Any]:
    return {
        "items": [_item(each) for each in plan.items],
        "added": plan.count(What.ADD),
        "changed": plan.count(What.EDIT),
        "removed": plan.count(What.REMOVE),
        "warnings": sum(len(each.warnings) for each in plan.items),
        "runs_per_day": {"before": round(plan.runs_before, 1), "after": round(plan.runs_after, 1)},
    }


def arranged_object(arranged: Arranged) -> Json:
    return {"added": arranged.added, "changed": arranged.changed, "removed": arranged.removed}


def _item(item: Foreseen) -> Mapping[str, object]:
    return {
        "what": item.what,
        "subject": item.subject,
        "before": dict(item.before),
        "after": dict(item.after),
        "next_before": moment_or_null(item.next_before),
        "next_after": moment_or_null(item.next_after),
        "runs": item.runs,
        "warnings": list(item.warnings),
    }


def _marked(origin: Origin | None) -> Origin | None:
    """Of a target or a schedule whose file is not one of the fleet's."""
    return replace(origin, file=f"{Way.APPLY} {origin.file}") if isinstance(origin, Place) else origin


def _refuse_homeless(schedules: Iterable[Schedule], known: set[str]) -> None:
    for each in schedules:
        if each.target not in known:
            near = next(iter(get_close_matches(each.target, sorted(known), n=1, cutoff=0.6)), None)
            raise NotFound(
                f'There is no agent "{each.target}" for the schedule "{each.name}"{ending(near)}',
                where=each.origin if isinstance(each.origin, Place) else None,
                hint="Apply the agent's own file first, or the whole folder.",
            )
