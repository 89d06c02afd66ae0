"""`herdbeat create`, `update` and `delete`: schedules without a file."""

import json
from dataclasses import replace
from typing import Any

from herdbeat.domain.change import What
from herdbeat.domain.origin import is_by_hand
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.asked import TRIGGERS, asked_of, target_rows, trigger_document, values_of, written_schedule
from herdbeat.faces.cli.changing import elsewhere
from herdbeat.faces.cli.crew import effect_words
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.making_words import creation_of, told, update_of
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.world import World
from herdbeat.moments import parse_zone
from herdbeat.service.making import (
    Making,
    NewSchedule,
    Refused,
    make_for_later,
    making_to_json,
    new_schedule,
    new_target,
    refuse_owned,
)
from herdbeat.service.questions import find_schedule
from herdbeat.service.selecting import parts_of
from herdbeat.store.reader import Filter


def create(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        target_name, name = parts_of(given.words[0])
        asked = asked_of(given, ledger, target_name, name or DEFAULT_NAME)
        target, schedule = values_of(asked, given, world)
        making = Making(
            what=What.ADD,
            who=person(world),
            target=target_name,
            name=asked.name if schedule is not None else None,
            new_target=new_target(target) if asked.keys is not None else None,
            new_schedule=new_schedule(schedule) if schedule is not None else None,
            reason=reason_of(given),
        )
        if given.has(flags.DRY_RUN):
            world.terminal.remark(f"Would create {making.label}. Nothing was changed.")
            return 0
        return _carry_out(given, world, ledger, making, f"herdbeat delete {making.label}")


def update(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        record = find_schedule(ledger.opened(), given.words[0])
        refuse_owned(record.label, record.origin)
        before = _stored(ledger, record)
        after = _updated(given, world, ledger, record, before)
        if after == before:
            world.terminal.remark(f"{record.label} is so already. Nothing was changed.")
            return 0
        making = Making(
            what=What.EDIT,
            who=person(world),
            target=record.target,
            name=record.name,
            new_schedule=after,
            reason=reason_of(given),
        )
        return _carry_out(given, world, ledger, making, update_of(record.label, before, after))


def delete(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        target, name = parts_of(given.words[0])
        row = target_rows(ledger).get(target)
        if name is None and row is not None and not is_by_hand(row.origin):
            name = DEFAULT_NAME  # a file owns the target, so only its schedule of the same name can be meant
        making = Making(what=What.REMOVE, who=person(world), target=target, name=name, reason=reason_of(given))
        return _carry_out(given, world, ledger, making, _way_back(ledger, making))


def _way_back(ledger: Ledger, making: Making) -> str:
    """The command that makes a schedule again. A target as a whole is more than one command can say."""
    wanted = Filter(target=making.target, name=making.name, limit=1)
    found = ledger.opened().schedules(wanted) if making.name is not None else []
    return creation_of(found[0].label, _stored(ledger, found[0])) if found else ""


def _stored(ledger: Ledger, record: ScheduleRecord) -> NewSchedule:
    brief = ledger.opened().briefs([record.id])[record.id]
    return NewSchedule(plan=record.plan, brief=brief, enabled=record.enabled)


def _updated(given: Given, world: World, ledger: Ledger, record: ScheduleRecord, stored: NewSchedule) -> NewSchedule:
    """The stored schedule with what was asked for. Its other policies stay as they are."""
    options = (*TRIGGERS, flags.PROMPT, flags.ENABLED, flags.ZONE)
    if not any(given.value(each) is not None for each in options):
        names = ", ".join(each.names[-1] for each in options)
        raise UsageError("Nothing is to be changed.", hint=f"Write one of {names}.")
    document = written_schedule(given, ledger) or trigger_document(stored.plan.trigger)
    if given.value(flags.PROMPT) is not None:
        document["prompt"] = given.value(flags.PROMPT)
    zone = given.value(flags.ZONE)
    policies = stored.plan.policies if zone is None else replace(stored.plan.policies, zone=parse_zone(zone))
    document.setdefault("timezone", policies.zone.key)
    read = values_of(asked_of(given, ledger, record.target, record.name, document), given, world)[1]
    assert read is not None, "it has a trigger"
    enabled = given.value(flags.ENABLED)
    return NewSchedule(
        plan=replace(stored.plan, trigger=read.trigger, policies=policies),
        brief=stored.brief if given.value(flags.PROMPT) is None else replace(stored.brief, prompt=read.prompt),
        enabled=stored.enabled if enabled is None else enabled == "true",
    )


def _carry_out(given: Given, world: World, ledger: Ledger, making: Making, undo: str) -> int:
    undo = f"{undo}{elsewhere(given)}" if undo else ""
    request = {"do": "make", "making": making_to_json(making)}
    refusals: list[Refused] = []

    def offline() -> dict[str, Any]:
        try:
            return dict(make_for_later(ledger.path, ledger.now, making))
        except Refused as error:
            refusals.append(error)  # not raised here: it would be taken for a lock, and tried for seconds
            return {}

    done, is_served = reach(ledger, request, offline)
    if refusals:
        raise refusals[0]
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({**done, "served": is_served, "undo": undo}, ensure_ascii=False))
        return 0
    for line in told(ledger, making, done, undo):
        world.terminal.say(line)
    if not is_served:
        world.terminal.remark(effect_words(ledger))
    return 0
