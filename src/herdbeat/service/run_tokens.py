"""The token of one run: what an agent's own process shows to our tools, as long as its run is active.

It is computed from the id of the run and a key that the ledger keeps, so giving one out writes nothing. It opens
nothing but the tools of an agent, for the schedule of that run.
"""

import hmac
import importlib.util
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from herdbeat.domain.agent_tools import RunReport
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, display_name
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.token import RUN_TOKEN_PREFIX
from herdbeat.runners.agents.own_tools import RUN_TOKEN_VARIABLE as RUN_TOKEN_VARIABLE  # noqa: PLC0414 -- for adapters
from herdbeat.runners.agents.own_tools import OwnTools, RunGrant
from herdbeat.service.commands.base import Actor, Scope
from herdbeat.store.base import Store, Transaction
from herdbeat.store.location import StoreLocation, resolve_state_dir
from herdbeat.store.reader import Filter, Reader

_TOKEN_PATTERN = re.compile(rf"{RUN_TOKEN_PREFIX}(?P<run>[0-9]{{1,18}})_(?P<proof>[0-9a-f]{{40}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUser:
    """Who uses our tools. Without a `schedule` it is a person's program, which only looks.

    `run_id` is the active run that asks; 0 outside of a run. `may_create`: its file says `allow_create`.
    """

    actor: Actor
    schedule_id: int | None = None
    schedule: str = ""
    run_id: int = 0
    may_create: bool = False


def make_run_token(key: str, run_id: int) -> str:
    proof = hmac.new(key.encode(), f"run:{run_id}".encode(), sha256).hexdigest()[:40]
    return f"{RUN_TOKEN_PREFIX}{run_id}_{proof}"


def is_run_token(text: str) -> bool:
    return text.startswith(RUN_TOKEN_PREFIX)


def find_run_user(reader: Reader, text: str) -> ToolUser | None:
    """Return whose token this is; None if it is no valid one, or its run has ended."""
    match, key = _TOKEN_PATTERN.fullmatch(text), reader.run_key()
    if match is None or key is None:
        return None
    run_id = int(match["run"])
    if not hmac.compare_digest(make_run_token(key, run_id).encode(), text.encode()):
        return None
    run = next(iter(reader.runs(Filter(run=run_id, limit=1))), None)
    if run is None or run.status is not RunStatus.RUNNING:
        return None
    return _find_user(reader, run.schedule, run_id)


def find_agent_user(reader: Reader, selector: str) -> ToolUser:
    """Return the user for an agent outside of a run. Raises NotFound, AmbiguousSchedule if it has several schedules."""
    from herdbeat.service.queries.selectors import find_single_schedule  # noqa: PLC0415 -- only `--as` needs it

    record = find_single_schedule(reader, selector)
    return _build_user(reader, record, 0)


def _find_user(reader: Reader, label: str, run_id: int) -> ToolUser | None:
    target, _, name = label.partition("/")
    # By its full name: "triage" alone would also mean the first of several schedules.
    wanted = Filter(target=target, name=name or DEFAULT_SCHEDULE_NAME, limit=1)
    return next((_build_user(reader, each, run_id) for each in reader.schedules(wanted)), None)


def _build_user(reader: Reader, record: ScheduleRecord, run_id: int) -> ToolUser:
    label = display_name(record.target, record.name)
    actor = Actor(name=f"agent:{record.target}", scopes=frozenset({Scope.SELF}), target=label, is_remote=True)
    may_create = _may_create(reader, record.target)
    return ToolUser(actor=actor, schedule_id=record.id, schedule=label, run_id=run_id, may_create=may_create)


def _may_create(reader: Reader, target: str) -> bool:
    known = reader.find_target(target)
    spec = reader.targets([known[0]])[known[0]].spec if known is not None else None
    return isinstance(spec, AgentSpec) and spec.allow_create


_KEY_BYTES = 32


class StoreToolLedger:
    """`ToolLedger` over a store, one short transaction per call. Only runs of agents that are offered tools use it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(self, run_id: int) -> RunGrant:
        new_key = secrets.token_hex(_KEY_BYTES)

        def read(tx: Transaction) -> tuple[str, str]:
            return tx.run_key_claim(new_key), tx.wake_note(run_id)

        key, note = await self._store.write(read)
        return RunGrant(token=make_run_token(key, run_id), note=note)

    async def read_report(self, run_id: int) -> RunReport | None:
        return await self._store.write(lambda tx: tx.run_report(run_id))


def open_own_tools(store: Store, location: StoreLocation, *, url: str, public_url: str) -> OwnTools | None:
    """Return how agents reach our MCP server; None without the package that implements its protocol."""
    if importlib.util.find_spec("mcp") is None:
        return None
    state_dir = resolve_state_dir(location).absolute() if isinstance(location, Path) else None
    return OwnTools(ledger=StoreToolLedger(store), state_dir=state_dir, url=url, public_url=public_url)
