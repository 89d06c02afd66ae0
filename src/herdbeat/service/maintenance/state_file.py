"""The documented `state.yaml`: the state of all schedules, exported and imported."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.files import read_text
from herdbeat.config.yaml import parse_yaml
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import ConfigError, HerdbeatError, Problem
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.repair.import_state import ImportedState, ImportOutcome, import_state
from herdbeat.service.commands.dispatch import write_offline
from herdbeat.service.queries.schedule_state import documented_status
from herdbeat.service.serialize import JsonObject
from herdbeat.store.base import Transaction
from herdbeat.store.location import StoreLocation
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_optional_timestamp, format_timestamp, parse_timestamp

MAX_SCHEDULES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The schedules of a state file by what was done with them. `unknown` ones are not in this fleet."""

    taken: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def serialize_state(reader: Reader, fleet: str) -> JsonObject:
    """Return `fleet`, and under `agents` every target with its schedules."""
    schedules: dict[str, list[ScheduleRecord]] = {}
    for record in reader.schedules(Filter(limit=MAX_SCHEDULES)):
        schedules.setdefault(record.target, []).append(record)
    node = reader.last_node()
    started = None if node is None else format_timestamp(node.started_at)
    agents = {target: _serialize_agent(records) for target, records in schedules.items()}
    return {"fleet": {"name": fleet, "started_at": started}, "agents": agents}


def parse_state_file(path: Path) -> dict[tuple[str, str], ImportedState]:
    """Return the state of each schedule, by agent and name. Raises ConfigError with the place of a mistake."""
    diagnostics = Diagnostics()
    try:
        tree = parse_yaml(read_text(path, str(path)), str(path), diagnostics)
    except ValidationError as error:
        problem = Problem(code=error.problem_code, message=error.message, where=error.where, hint=error.hint)
        raise ConfigError([problem]) from error
    if tree is None:
        raise ConfigError(diagnostics.sorted_problems())
    agents = _get_mapping(tree.to_data(), "agents")
    return {
        (agent, name): _parse_imported_state(f"{agent}/{name}", entry)
        for agent, each in agents.items()
        for name, entry in _get_mapping(each, "schedules").items()
    }


def import_states(
    tx: Transaction, now: datetime, states: Mapping[tuple[str, str], ImportedState], by: str
) -> ImportResult:
    """Import what can be imported. A schedule that has already run here keeps its own past."""
    ids = {name: number for name, (number, _) in tx.targets().items()}
    stored = tx.schedule_list_by_target(ids.values())
    outcomes: dict[str, list[str]] = {"unknown": [], **{outcome.value: [] for outcome in ImportOutcome}}
    for (agent, name), state in states.items():
        found = stored.get((ids.get(agent, 0), name))
        outcome = "unknown" if found is None else import_state(tx, now, found[0], state, by).value
        outcomes[outcome].append(f"{agent}/{name}")
    return ImportResult(**{outcome: tuple(names) for outcome, names in outcomes.items()})


def import_states_offline(
    path: StoreLocation, fleet: Fleet, now: datetime, states: Mapping[tuple[str, str], ImportedState], by: str
) -> ImportResult:
    """Import while nothing runs. The files are applied first, so that a fleet that never ran here has its schedules."""

    def work(tx: Transaction) -> ImportResult:
        apply_fleet(tx, fleet, now, by)
        return import_states(tx, now, states, by)

    return write_offline(path, work)


def _serialize_agent(records: Sequence[ScheduleRecord]) -> JsonObject:
    upcoming = [(each.next_run_at, each.name) for each in records if each.next_run_at is not None]
    next_run_at, name = min(upcoming, key=itemgetter(0), default=(None, None))
    return {
        "status": "running" if any(each.running for each in records) else "idle",
        "next_schedule": name,
        "next_trigger_at": format_optional_timestamp(next_run_at),
        "schedules": {each.name: _serialize_schedule(each) for each in records},
    }


def _serialize_schedule(record: ScheduleRecord) -> JsonObject:
    return {
        "status": documented_status(record),
        "last_run_at": format_optional_timestamp(record.last_run_at),
        "next_run_at": format_optional_timestamp(record.next_run_at),
        "last_error": record.quarantine or record.last_error,
    }


def _get_mapping(value: object, key: str) -> Mapping[str, object]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _parse_imported_state(label: str, entry: object) -> ImportedState:
    fields = entry if isinstance(entry, Mapping) else {}
    last, error = fields.get("last_run_at"), fields.get("last_error")
    try:
        moment = parse_timestamp(str(last)) if last else None
    except HerdbeatError as wrong:
        problem = Problem(code=wrong.code, message=f"{label}: {wrong.message}", hint=wrong.hint)
        raise ConfigError([problem]) from wrong
    return ImportedState(last_run_at=moment, last_error=str(error or ""), disabled=fields.get("status") == "disabled")


def imported_states_to_rows(states: Mapping[tuple[str, str], ImportedState]) -> Iterator[list[object]]:
    """Yield the rows in which a request to the control socket carries them."""
    for (agent, name), state in states.items():
        yield [agent, name, format_optional_timestamp(state.last_run_at), state.last_error[:500], state.disabled]


def imported_states_from_rows(rows: object) -> dict[tuple[str, str], ImportedState]:
    """Return the states of such rows. Raises ValueError or TypeError for anything else."""
    if not isinstance(rows, list):
        raise TypeError("not a list")
    return {
        (str(agent), str(name)): ImportedState(
            last_run_at=parse_timestamp(str(last)) if last else None, last_error=str(error), disabled=disabled is True
        )
        for agent, name, last, error, disabled in rows
    }
