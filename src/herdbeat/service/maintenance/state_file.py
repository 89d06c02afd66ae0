"""The state of all schedules in the documented shape of `state.yaml`: written out, and taken over from one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.files import read_text
from herdbeat.config.yaml import parse_yaml
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import ConfigError, HerdbeatError, Problem
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.repair.import_state import ImportedState, ImportOutcome, import_state
from herdbeat.service.queries.schedule_state import documented_status
from herdbeat.store.base import Transaction
from herdbeat.store.location import StoreLocation, create_store, exclusive_lock
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_optional_timestamp, format_timestamp, parse_timestamp

MAX_SCHEDULES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What became of each schedule of a state file, by its name. `unknown` ones are not in this fleet."""

    taken: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def serialize_state(reader: Reader, fleet: str) -> dict[str, object]:
    """`fleet`, and under `agents` every target with its schedules."""
    agents: dict[str, dict[str, object]] = {}
    node = reader.last_node()
    for record in reader.schedules(Filter(limit=MAX_SCHEDULES)):
        agent = agents.setdefault(record.target, _new_agent_entry())
        _add_schedule(agent, record)
    started = None if node is None else format_timestamp(node.started_at)
    return {"fleet": {"name": fleet, "started_at": started}, "agents": agents}


def parse_state_file(path: Path) -> dict[tuple[str, str], ImportedState]:
    """What a state.yaml says of each schedule, by agent and name. Raises ConfigError with the place of a mistake."""
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
    """Take over what can be. A schedule with a past of its own keeps it."""
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
    """While nothing runs: the files first, so that a fleet which has never run here finds its schedules."""

    def work(tx: Transaction) -> ImportResult:
        apply_fleet(tx, fleet, now, by)
        return import_states(tx, now, states, by)

    with exclusive_lock(path):
        store = create_store(path)
        store.open()
        try:
            return store.write_now(work)
        finally:
            store.close()


def _new_agent_entry() -> dict[str, object]:
    return {"status": "idle", "next_schedule": None, "next_trigger_at": None, "schedules": {}}


def _add_schedule(agent: dict[str, object], record: ScheduleRecord) -> None:
    next_run = format_optional_timestamp(record.next_run_at)
    schedules = agent["schedules"]
    assert isinstance(schedules, dict)
    schedules[record.name] = {
        "status": documented_status(record),
        "last_run_at": format_optional_timestamp(record.last_run_at),
        "next_run_at": next_run,
        "last_error": record.quarantine or record.last_error,
    }
    if record.running:
        agent["status"] = "running"
    if next_run is not None and (agent["next_trigger_at"] is None or next_run < str(agent["next_trigger_at"])):
        agent["next_schedule"], agent["next_trigger_at"] = record.name, next_run


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
    """As a request carries them."""
    for (agent, name), state in states.items():
        yield [agent, name, format_optional_timestamp(state.last_run_at), state.last_error[:500], state.disabled]


def imported_states_from_rows(rows: object) -> dict[tuple[str, str], ImportedState]:
    """The way back. Raises ValueError or TypeError for what are none."""
    if not isinstance(rows, list):
        raise TypeError("not a list")
    return {
        (str(agent), str(name)): ImportedState(
            last_run_at=parse_timestamp(str(last)) if last else None, last_error=str(error), disabled=disabled is True
        )
        for agent, name, last, error, disabled in rows
    }
