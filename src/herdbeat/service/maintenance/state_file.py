"""The state of all schedules in the documented shape of `state.yaml`: writing one, and reading one."""

from collections.abc import Mapping
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.files import read_text
from herdbeat.config.yaml import parse_yaml
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import ConfigError, HerdbeatError, Problem
from herdbeat.service.commands.base import StateEntry
from herdbeat.service.serialize import format_optional_timestamp
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_timestamp, parse_timestamp

MAX_SCHEDULES = 1_000_000
MAX_ERROR_CHARS = 500
"""Of an error that is taken over: a hundred schedules go through the control socket in one line."""


def serialize_state(reader: Reader, fleet: str) -> dict[str, object]:
    """`fleet`, and under `agents` every target with its schedules."""
    agents: dict[str, dict[str, object]] = {}
    node = reader.last_node()
    for record in reader.schedules(Filter(limit=MAX_SCHEDULES)):
        agent = agents.setdefault(record.target, _new_agent_entry())
        _add_schedule(agent, record)
    started = None if node is None else format_timestamp(node.started_at)
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


def _new_agent_entry() -> dict[str, object]:
    return {"status": "idle", "next_schedule": None, "next_trigger_at": None, "schedules": {}}


def _add_schedule(agent: dict[str, object], record: ScheduleRecord) -> None:
    next_run = format_optional_timestamp(record.next_run_at)
    schedules = agent["schedules"]
    assert isinstance(schedules, dict)
    schedules[record.name] = {
        "status": _resolve_status(record),
        "last_run_at": format_optional_timestamp(record.last_run_at),
        "next_run_at": next_run,
        "last_error": record.quarantine or record.last_error,
    }
    if record.running:
        agent["status"] = "running"
    if next_run is not None and (agent["next_trigger_at"] is None or next_run < str(agent["next_trigger_at"])):
        agent["next_schedule"], agent["next_trigger_at"] = record.name, next_run


def _resolve_status(record: ScheduleRecord) -> str:
    if record.running:
        return "running"
    return "idle" if record.enabled and record.disabled_by is None else "disabled"


def _get_mapping(value: object, key: str) -> Mapping[str, object]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _parse_entry(agent: str, name: str, entry: object) -> StateEntry:
    fields = entry if isinstance(entry, Mapping) else {}
    last, error = fields.get("last_run_at"), fields.get("last_error")
    try:
        moment = parse_timestamp(str(last)) if last else None
    except HerdbeatError as wrong:
        problem = Problem(code=wrong.code, message=f"{agent}/{name}: {wrong.message}", hint=wrong.hint)
        raise ConfigError([problem]) from wrong
    return StateEntry(
        agent=agent,
        name=name,
        last_run_at=moment,
        last_error=str(error or "")[:MAX_ERROR_CHARS],
        disabled=fields.get("status") == "disabled",
    )
