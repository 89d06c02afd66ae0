"""The state of all schedules in the documented shape of `state.yaml`: written out, and taken over from one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from herdbeat.config.report import Misfit, Report
from herdbeat.config.text import read_text
from herdbeat.config.yaml_tree import read_tree
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import ConfigError, HerdbeatError, Problem
from herdbeat.moments import format_moment, parse_moment
from herdbeat.scheduler.arrange import arrange
from herdbeat.scheduler.remember import Memory, Taking, remember
from herdbeat.service.objects import moment_or_null
from herdbeat.store.base import Transaction
from herdbeat.store.opening import alone_at, store_at
from herdbeat.store.places import LedgerPlace
from herdbeat.store.reader import Filter, Reader

MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What became of each schedule of a state file, by its name. `unknown` ones are not in this fleet."""

    taken: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def state_object(reader: Reader, fleet: str) -> dict[str, object]:
    """`fleet`, and under `agents` every target with its schedules."""
    agents: dict[str, dict[str, object]] = {}
    node = reader.last_node()
    for record in reader.schedules(Filter(limit=MOST)):
        agent = agents.setdefault(record.target, _agent())
        _add(agent, record)
    started = None if node is None else format_moment(node.started_at)
    return {"fleet": {"name": fleet, "started_at": started}, "agents": agents}


def read_state(path: Path) -> dict[tuple[str, str], Memory]:
    """What a state.yaml says of each schedule, by agent and name. Raises ConfigError with the place of a mistake."""
    report = Report()
    try:
        tree = read_tree(read_text(path, str(path)), str(path), report)
    except Misfit as error:
        problem = Problem(code=error.problem_code, message=error.message, where=error.where, hint=error.hint)
        raise ConfigError([problem]) from error
    if tree is None:
        raise ConfigError(report.in_file_order())
    agents = _inside(tree.plain(), "agents")
    return {
        (agent, name): _memory(f"{agent}/{name}", said)
        for agent, each in agents.items()
        for name, said in _inside(each, "schedules").items()
    }


def remember_all(tx: Transaction, now: datetime, memories: Mapping[tuple[str, str], Memory], by: str) -> Remembered:
    """Take over what can be. A schedule with a past of its own keeps it."""
    ids = {name: number for name, (number, _) in tx.targets().items()}
    stored = tx.schedules_of(ids.values())
    fates: dict[str, list[str]] = {"unknown": [], **{fate.value: [] for fate in Taking}}
    for (agent, name), memory in memories.items():
        found = stored.get((ids.get(agent, 0), name))
        fate = "unknown" if found is None else remember(tx, now, found[0], memory, by).value
        fates[fate].append(f"{agent}/{name}")
    return Remembered(**{fate: tuple(names) for fate, names in fates.items()})


def remember_for_later(
    path: LedgerPlace, fleet: Fleet, now: datetime, memories: Mapping[tuple[str, str], Memory], by: str
) -> Remembered:
    """While nothing runs: the files first, so that a fleet which has never run here finds its schedules."""

    def work(tx: Transaction) -> Remembered:
        arrange(tx, fleet, now, by)
        return remember_all(tx, now, memories, by)

    with alone_at(path):
        store = store_at(path)
        store.open()
        try:
            return store.write_now(work)
        finally:
            store.close()


def _agent() -> dict[str, object]:
    return {"status": "idle", "next_schedule": None, "next_trigger_at": None, "schedules": {}}


def _add(agent: dict[str, object], record: ScheduleRecord) -> None:
    following = moment_or_null(record.next_run_at)
    schedules = agent["schedules"]
    assert isinstance(schedules, dict)
    schedules[record.name] = {
        "status": _status(record),
        "last_run_at": moment_or_null(record.last_run_at),
        "next_run_at": following,
        "last_error": record.quarantine or record.last_error,
    }
    if record.running:
        agent["status"] = "running"
    if following is not None and (agent["next_trigger_at"] is None or following < str(agent["next_trigger_at"])):
        agent["next_schedule"], agent["next_trigger_at"] = record.name, following


def _status(record: ScheduleRecord) -> str:
    if record.running:
        return "running"
    return "idle" if record.enabled and record.disabled_by is None else "disabled"


def _inside(value: object, key: str) -> Mapping[str, object]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _memory(label: str, said: object) -> Memory:
    fields = said if isinstance(said, Mapping) else {}
    last, error = fields.get("last_run_at"), fields.get("last_error")
    try:
        moment = parse_moment(str(last)) if last else None
    except HerdbeatError as wrong:
        problem = Problem(code=wrong.code, message=f"{label}: {wrong.message}", hint=wrong.hint)
        raise ConfigError([problem]) from wrong
    return Memory(last_run_at=moment, last_error=str(error or ""), disabled=fields.get("status") == "disabled")


def memory_rows(memories: Mapping[tuple[str, str], Memory]) -> Iterator[list[object]]:
    """As a request carries them."""
    for (agent, name), memory in memories.items():
        yield [agent, name, moment_or_null(memory.last_run_at), memory.last_error[:500], memory.disabled]


def read_rows(rows: object) -> dict[tuple[str, str], Memory]:
    """The way back. Raises ValueError or TypeError for what are none."""
    if not isinstance(rows, list):
        raise TypeError("not a list")
    return {
        (str(agent), str(name)): Memory(
            last_run_at=parse_moment(str(last)) if last else None, last_error=str(error), disabled=disabled is True
        )
        for agent, name, last, error, disabled in rows
    }
