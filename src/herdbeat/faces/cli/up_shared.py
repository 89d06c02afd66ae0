"""What `up` says where nodes share a ledger: it runs what was applied, whatever the files beside it say."""

from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.faces.cli.apply_words import summary
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.world import World
from herdbeat.scheduler.foresee import Stored, foresee
from herdbeat.service.applying import stored_in
from herdbeat.store.opening import clock_at, reader_at
from herdbeat.store.places import LedgerPlace, ledger_of

NOTHING = "Nothing was applied to this database yet, so nothing runs. Bring these files along: herdbeat apply"


def unapplied_words(fleet: Fleet, world: World) -> str:
    """How the files differ from what was applied; empty if they do not, or if a file is the ledger."""
    place = ledger_of(fleet)
    if isinstance(place, Path):
        return ""
    clock = clock_at(place, world.clock)
    stored = Stored() if clock is None else stored_in(place)
    if clock is None or not stored.schedules:
        return NOTHING
    plan = foresee(stored, fleet, clock.now())
    if not plan.items:
        return ""
    return (
        f"These files are not what was applied: {summary(plan, 'to')} Nodes run what was applied.\n"
        "Look at it: herdbeat apply --dry-run   Bring it about: herdbeat apply"
    )


def applied_words(place: LedgerPlace) -> str:
    """How much there is to run."""
    reader = reader_at(place)
    try:
        return f"{counted(reader.number_of_schedules(), 'schedule')} applied"
    finally:
        reader.close()
