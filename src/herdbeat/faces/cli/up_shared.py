"""What `up` says where nodes share a ledger: it runs what was applied, whatever the files beside it say."""

from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.faces.cli.apply_words import summarize_plan
from herdbeat.faces.cli.marks import format_count
from herdbeat.faces.cli.world import Context
from herdbeat.scheduler.foresee import StoredFleet, plan_apply
from herdbeat.service.applying import read_stored_fleet
from herdbeat.store.opening import open_reader, select_clock
from herdbeat.store.places import StoreLocation, store_location

NOTHING_APPLIED = "Nothing was applied to this database yet, so nothing runs. Bring these files along: herdbeat apply"


def describe_unapplied(fleet: Fleet, context: Context) -> str:
    """How the files differ from what was applied; empty if they do not, or if a file is the ledger."""
    place = store_location(fleet)
    if isinstance(place, Path):
        return ""
    clock = select_clock(place, context.clock)
    stored = StoredFleet() if clock is None else read_stored_fleet(place)
    if clock is None or not stored.schedules:
        return NOTHING_APPLIED
    plan = plan_apply(stored, fleet, clock.now())
    if not plan.items:
        return ""
    return (
        f"These files are not what was applied: {summarize_plan(plan, 'to')} Nodes run what was applied.\n"
        "Look at it: herdbeat apply --dry-run   Bring it about: herdbeat apply"
    )


def describe_applied(place: StoreLocation) -> str:
    """How much there is to run."""
    reader = open_reader(place)
    try:
        return f"{format_count(reader.count_all_schedules(), 'schedule')} applied"
    finally:
        reader.close()
