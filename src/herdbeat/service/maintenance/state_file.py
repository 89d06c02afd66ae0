"""The documented `state.yaml`: the state of all schedules, exported and imported."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.files import read_text
from herdbeat.config.yaml import parse_yaml
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import ConfigError, HerdbeatError, Problem
from herdbeat.service.commands.base import StateEntry
from herdbeat.service.queries.schedule_state import to_documented_status
from herdbeat.service.serialize import JsonObject
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_optional_timestamp, format_timestamp, parse_stored_timestamp

MAX_SCHEDULES = 1_000_000
MAX_ERROR_CHARS = 500
"""Of an error that is taken over: a hundred schedules go through the control socket in one line."""


def serialize_state(reader: Reader, fleet: str) -> JsonObject:
    """Return `fleet`, and under `agents` every target with its schedules."""
    schedules: dict[str, list[ScheduleRecord]] = {}
    for record in reader.schedules(Filter(limit=MAX_SCHEDULES)):
        schedules.setdefault(record.target, []).append(record)
    node = reader.last_node()
    started = None if node is None else format_timestamp(node.started_at)
    agents = {target: _serialize_agent(records) for target, records in schedules.items()}
    return {"fleet": {"name": fleet, "started_at": started}, "agents": agents}


def parse_state_file(path: Path) -> tuple[StateEntry, ...]:
    """What a state.yaml says of each schedule. Raises ConfigError with the place of a mistake."""
    diagnostics = Diagnostics()
    try:
        tree = parse_yaml(read_text(path, str(path)), str(path), diagnostics)
    except ValidationError as error:
        problem = Problem(code=error.problem_code, message=error.message, where=error.where, hint=error.hint)
        raise ConfigError([problem]) from error
    if tree is None:
        raise ConfigError(diagnostics.sorted_problems())
    agents = _get_mapping(tree.to_data(), "agents")
    return tuple(
        _parse_entry(str(agent), str(name), entry)
        for agent, each in agents.items()
        for name, entry in _get_mapping(each, "schedules").items()
    )


def _serialize_agent(records: Sequence[ScheduleRecord]) -> JsonObject:
    upcoming = [(each.next_run_at, each.name) for each in records if each.next_run_at is not None]
    next_run_at, name = min(upcoming, key=itemgetter(0), default=(None, None))
    status = "running" if any(each.running for each in records) else "idle"
    next_run = {"next_schedule": name, "next_trigger_at": format_optional_timestamp(next_run_at)}
    return {"status": status, **next_run, "schedules": {each.name: _serialize_schedule(each) for each in records}}


def _serialize_schedule(record: ScheduleRecord) -> JsonObject:
    last, upcoming = format_optional_timestamp(record.last_run_at), format_optional_timestamp(record.next_run_at)
    error = record.quarantine or record.last_error
    return {"status": to_documented_status(record), "last_run_at": last, "next_run_at": upcoming, "last_error": error}


def _get_mapping(value: object, key: str) -> Mapping[str, object]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _parse_entry(agent: str, name: str, entry: object) -> StateEntry:
    fields = entry if isinstance(entry, Mapping) else {}
    last, error = fields.get("last_run_at"), fields.get("last_error")
    try:
        moment = parse_stored_timestamp(str(last)) if last else None
    except HerdbeatError as wrong:
        problem = Problem(code=wrong.code, message=f"{agent}/{name}: {wrong.message}", hint=wrong.hint)
        raise ConfigError([problem]) from wrong
    last_error, disabled = str(error or "")[:MAX_ERROR_CHARS], fields.get("status") == "disabled"
    return StateEntry(agent=agent, name=name, last_run_at=moment, last_error=last_error, disabled=disabled)
