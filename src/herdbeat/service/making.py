"""Schedules without a file: made, changed and removed by hand. What stands in a file is refused, with its place.

One way for all of them: the change is a value that can be sent to the process that runs the fleet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.brief import Brief
from herdbeat.domain.change import Change, What
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.fleet import Fleet, Server
from herdbeat.domain.origin import Way, is_by_hand
from herdbeat.domain.plan import Plan
from herdbeat.domain.schedule import DEFAULT_NAME, Schedule, label_of
from herdbeat.domain.target import SPECS, Target
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.scheduler.arrange import arrange
from herdbeat.scheduler.handover import remove
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.store.base import ScheduleRow, TargetRow, Transaction
from herdbeat.store.opening import alone_at, store_at
from herdbeat.store.places import LedgerPlace
from herdbeat.triggers import from_options

_UTC = ZoneInfo("UTC")


class Refused(Conflict):
    """It is there already, or a file owns it. Apart from a lock that somebody holds, which is worth another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTarget:
    kind: str
    spec: Mapping[str, object]
    max_concurrent: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    plan: Plan
    brief: Brief
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What is wanted, by whom: `what` is add, edit or remove. Without a `name` it is about the target as a whole."""

    what: What
    who: str
    target: str
    name: str | None = None
    new_target: NewTarget | None = None
    new_schedule: NewSchedule | None = None
    way: Way = Way.CLI
    reason: str = ""

    @property
    def label(self) -> str:
        return self.target if self.name is None else label_of(self.target, self.name)


def making_to_json(making: Making) -> dict[str, object]:
    found: dict[str, object] = to_json(making)
    return found


def making_from_json(data: object) -> Making:
    """Raises UsageError for what is none."""
    try:
        making = from_json(Making, data, from_options) if isinstance(data, Mapping) else None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        hint = "Send what, who, target and what it is."
        raise UsageError(f"The request cannot be read: {error}.", hint=hint) from error
    if making is None or not making.who:
        raise UsageError("The request does not say what is wanted, or by whom.", hint='Send "what" and "who".')
    return making


def new_target(target: Target) -> NewTarget:
    """A target of a file, as a request carries it."""
    return NewTarget(kind=target.kind, spec=to_json(target.spec), max_concurrent=target.max_concurrent)


def new_schedule(schedule: Schedule) -> NewSchedule:
    plan = Plan(trigger=schedule.trigger, policies=schedule.policies)
    return NewSchedule(plan=plan, brief=Brief(prompt=schedule.prompt), enabled=schedule.enabled)


def make(tx: Transaction, now: datetime, making: Making) -> Json:
    """Do it. Raises Refused for what a file owns or what exists already, NotFound for what does not."""
    known = tx.targets().get(making.target)
    rows = tx.schedules_of([known[0]]) if known is not None else {}
    by_name = {name: (number, row) for (_, name), (number, row) in rows.items()}
    if making.what is What.REMOVE:
        return _remove(tx, now, making, known, by_name)
    _check(making, known, by_name)
    targets, schedules = _values(making)
    arrange(tx, _fleet(targets, schedules), now, making.who, is_whole=False, reason=making.reason)
    return _told(tx, making)


def make_for_later(path: LedgerPlace, now: datetime, making: Making) -> Json:
    """While nothing runs: written under the state lock. Raises Conflict if something does."""
    with alone_at(path):
        store = store_at(path)
        store.open()
        try:
            return store.write_now(lambda tx: make(tx, now, making))
        finally:
            store.close()


def refuse_owned(label: str, origin: str) -> None:
    """Raises Refused if a file says what it is."""
    if not is_by_hand(origin):
        where = f" in {origin}" if origin else " in its file"
        raise Refused(
            f'"{label}" stands{where}.',
            hint=f"Change it there, and it is applied. To hold it for now: herdbeat disable {label}",
        )


def _check(making: Making, known: tuple[int, TargetRow] | None, by_name: Mapping[str, tuple[int, ScheduleRow]]) -> None:
    if known is None and making.new_target is None:
        hint = "Say what it is: --command, --url, --call or --runtime; or correct the name."
        raise NotFound(f'There is no target "{making.target}".', hint=hint)
    if known is not None and making.new_target is not None:
        raise Refused(
            f'There is already a target "{making.target}", {_from(known[1].origin)}.',
            hint=f"Add a schedule to it: herdbeat create {making.target}/NAME --every 1h",
        )
    stored = by_name.get(making.name or "")
    if making.what is What.ADD and stored is not None:
        hint = f"Change it with herdbeat update {making.label}, or choose another name."
        raise Refused(f'There is already a schedule "{making.label}", {_from(stored[1].origin)}.', hint=hint)
    if making.what is What.EDIT:
        if stored is None:
            raise NotFound(f'There is no schedule "{making.label}".', hint="See: herdbeat list")
        refuse_owned(making.label, stored[1].origin)


def _from(origin: str) -> str:
    return f"made by {origin}" if is_by_hand(origin) else f"in {origin or 'its file'}"


def _values(making: Making) -> tuple[tuple[Target, ...], tuple[Schedule, ...]]:
    targets: tuple[Target, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    if making.new_target is not None:
        new = making.new_target
        spec = from_json(SPECS[new.kind], new.spec, from_options)
        targets = (Target(name=making.target, spec=spec, max_concurrent=new.max_concurrent, origin=making.way),)
    if making.new_schedule is not None and making.name is not None:
        plan, brief = making.new_schedule.plan, making.new_schedule.brief
        made = Schedule(target=making.target, name=making.name, trigger=plan.trigger, policies=plan.policies)
        words = {"prompt": brief.prompt, "work_source": brief.work_source, "enabled": making.new_schedule.enabled}
        schedules = (replace(made, origin=making.way, **words),)  # type: ignore[arg-type]
    return targets, schedules


def _fleet(targets: tuple[Target, ...], schedules: tuple[Schedule, ...]) -> Fleet:
    zone = schedules[0].policies.zone if schedules else _UTC
    return Fleet(name="", zone=zone, targets=targets, schedules=schedules, store="", server=Server())


def _remove(
    tx: Transaction,
    now: datetime,
    making: Making,
    known: tuple[int, TargetRow] | None,
    by_name: Mapping[str, tuple[int, ScheduleRow]],
) -> Json:
    if known is None or (making.name is not None and making.name not in by_name):
        if known is not None and making.name == DEFAULT_NAME:
            refuse_owned(making.target, known[1].origin)
        raise NotFound(f'There is no schedule or target "{making.label}".', hint="See: herdbeat list")
    is_whole = making.name is None
    gone = by_name if is_whole else {making.name: by_name[making.name]} if making.name else {}
    if is_whole:
        refuse_owned(making.label, known[1].origin)
    for name, (_, row) in gone.items():
        refuse_owned(label_of(making.target, str(name)), row.origin)
    remove(tx, now, [number for number, _ in gone.values()])
    subjects = [f"{making.target}/{name}" for name in gone]
    if is_whole:
        tx.remove_targets([known[0]], now)
        subjects.append(making.target)
    after = {"reason": making.reason} if making.reason else None
    tx.add_changes([Change(at=now, who=making.who, what=What.REMOVE, subject=each, after=after) for each in subjects])
    return {"what": making.what, "subject": making.label, "removed": subjects, "next_run_at": None}


def _told(tx: Transaction, making: Making) -> Json:
    number = tx.targets()[making.target][0]
    stored = tx.schedules_of([number]).get((number, making.name or ""))
    standing = tx.schedules([stored[0]])[stored[0]] if stored is not None else None
    return {
        "what": making.what,
        "subject": making.label,
        "removed": [],
        "next_run_at": moment_or_null(standing.next_run_at if standing else None),
        "when": standing.plan.trigger.describe() if standing else None,
        "enabled": standing.enabled if standing else None,
    }
