"""Dispatch: brings a command to the process that may write into the ledger, and returns its result.

There are four ways. **In process**: a node of ours runs in this event loop (`NodeDispatcher`). **Control socket**:
another process on this machine runs the fleet. **Direct**: the ledger is a database, which any process may write into.
**Offline**: no process runs the fleet, so this one takes the state lock, writes, and releases it. `Dispatcher` chooses
among the last three. The way changes nothing about the rows that are written, or the result.

`execute` is the only writer of changes. One table leads from the type of a command to its handler, which takes
`(tx, now, who, command, environment)` and returns the command's result. It runs inside one transaction.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast
from uuid import uuid4

from herdbeat.clock import Clock
from herdbeat.domain.change import ChangeData, ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.remote_run import RemoteStop
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.trigger import create_event_id
from herdbeat.error_codes import Code
from herdbeat.errors import Conflict, HerdbeatError, truncate_for_message
from herdbeat.events import Event, EventListener, null_listener, safe_listener
from herdbeat.service.commands.base import (
    AckRuns,
    Actor,
    AppliedFleet,
    ApplyFleet,
    BackfillSchedule,
    CancelPause,
    CancelRuns,
    CancelSchedules,
    ChangeEpisodes,
    Command,
    CreateToken,
    DeleteSchedule,
    DisableSchedules,
    EnableSchedules,
    Forbidden,
    ImportState,
    KeyReused,
    PauseSchedules,
    PlanPause,
    PruneHistory,
    PruneResult,
    ReceiveChat,
    ReceiveEvents,
    ReleaseAccount,
    ReleaseWork,
    ReportRemoteRun,
    RestoreHints,
    ResumeSchedules,
    RetriedRuns,
    RetryRuns,
    RevokeToken,
    ScheduleChanges,
    ScheduleCommand,
    SelfCommand,
    SendTestMessage,
    SkipBeats,
    TakeRemoteRun,
    TriggeredBeat,
    TriggerSchedule,
    UpsertSchedule,
    command_to_json,
    merge_results,
    result_from_json,
    result_to_json,
)
from herdbeat.service.commands.lock_turns import LockTurns
from herdbeat.store.location import StoreHandle, StoreLocation, create_store, exclusive_lock, name_ledger, open_audit
from herdbeat.store.state_lock import find_lock_holder
from herdbeat.timestamps import parse_stored_timestamp

if TYPE_CHECKING:
    from herdbeat.scheduler.loop import Loop
    from herdbeat.scheduler.node import Node
    from herdbeat.store.base import Transaction
    from herdbeat.store.spec_cache import SpecCache

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MAX_RECORDED_CHARS = 200
"""Characters of a name or a reason that are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Which runs a command ends: single ones, or all of some schedules. `reason` is what those runs say of it."""

    reason: str
    schedules: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFleet:
    """A fleet to apply. One that is not the whole one removes nothing."""

    fleet: Fleet
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a handler knows beside the ledger, gathered before its transaction begins; and what it leaves to do.

    `local_runs` are the runs of this process and their schedules. Events are published, and local runs are stopped,
    once the transaction is durable. `event_id` identifies a beat by hand: a database may begin a transaction again, and
    the beat must be the same one then. A command with a `request_id` that was executed before is answered with its
    first result.
    """

    node_id: int = 0
    local_runs: Mapping[int, int] = field(default_factory=dict)
    has_live_node: bool = True
    catchup_rate: float = 10
    loaded_fleet: LoadedFleet | None = None
    event_id: str = field(default_factory=create_event_id)
    request_id: str = ""
    events: list[Event] = field(default_factory=list)
    stop_orders: list[StopOrder] = field(default_factory=list)

    def stop(self, tx: "Transaction", order: StopOrder) -> list[tuple[int, int]]:
        """End these runs here, and request it of the nodes that have the others. Return all, as (schedule, run).

        A run of our own that has not begun yet is requested like a foreign one: this node takes that up itself. For
        a run on an engine it is written with the command, because the node that has it may die before it has acted.
        """
        self.stop_orders.append(order)
        stop = str(RemoteStop(RunStatus.CANCELLED, order.reason))
        elsewhere = tx.remote_request_stop(stop, schedules=order.schedules, runs=order.runs)
        return list(dict.fromkeys([*self._request_stop(tx, order), *elsewhere]))

    def _request_stop(self, tx: "Transaction", order: StopOrder) -> list[tuple[int, int]]:
        local = [
            (schedule, run)
            for run, schedule in self.local_runs.items()
            if schedule in order.schedules or run in order.runs
        ]
        remote_runs = [run for run in order.runs if run not in self.local_runs]
        if not order.schedules and not remote_runs:
            return local
        node_id = self.node_id if order.schedules else 0
        remote = tx.run_request_stop(
            order.reason, schedules=order.schedules, runs=remote_runs, node_id=node_id, force=order.force
        )
        return [*local, *remote]


_HANDLERS: dict[type[Command[Any]], str] = {
    ScheduleCommand: "schedules:change_schedules",
    CancelSchedules: "runs:cancel_schedules",
    CancelRuns: "runs:cancel_runs",
    RetryRuns: "runs:retry_runs",
    ReleaseWork: "work:release_work",
    BackfillSchedule: "runs:backfill_schedule",
    TriggerSchedule: "runs:trigger_schedule",
    UpsertSchedule: "fleet:upsert_schedule",
    DeleteSchedule: "fleet:delete_schedule",
    ApplyFleet: "fleet:apply_loaded_fleet",
    ImportState: "fleet:import_states",
    CreateToken: "tokens:create_token",
    RevokeToken: "tokens:revoke_token",
    ReleaseAccount: "agents:release_account",
    AckRuns: "agents:ack_runs",
    ChangeEpisodes: "notifications:change_episodes",
    SendTestMessage: "notifications:send_test_message",
    PlanPause: "pauses:plan_pause",
    CancelPause: "pauses:cancel_pause",
    SelfCommand: "agent_tools:run_self_command",
    ReceiveEvents: "events:receive_events",
    ReceiveChat: "chat:receive_chat",
    TakeRemoteRun: "remote_runs:take_remote_run",
    ReportRemoteRun: "remote_runs:report_remote_run",
}
"""Handlers by name: `pause` must not load what `apply` needs, which is half the tree."""


def execute(
    tx: "Transaction", now: datetime, actor: Actor, command: Command[R], environment: Environment | None = None
) -> R:
    """Execute a command, and record it in the change log. Raises Forbidden, UsageError, NotFound or Conflict.

    A client that gave up while the commit succeeded sends the same `request_id` again: nothing is done twice.
    """
    require_scope(actor, command)
    if actor.is_remote or actor.target:
        require_reach(tx, actor, command)
    environment = environment or Environment()
    if not environment.request_id or command.is_repeatable:
        return _execute(tx, now, actor, command, environment)
    request_id, content = split_request_id(environment.request_id)
    tx.lock_request(request_id)
    stored = tx.request_result(request_id)
    if stored is not None:
        return _repeat_result(command, json.loads(stored), content)
    result = _execute(tx, now, actor, command, environment)
    if not content:
        tx.add_request(request_id, now, json.dumps(result_to_json(result)))
    elif not _has_done_nothing(result):
        tx.add_request(request_id, now, json.dumps({"content": content, "result": result_to_json(result)}))
    return result


def _repeat_result(command: Command[R], stored: Mapping[str, Any], content: str) -> R:
    """Return the first result of a request. Raises KeyReused if its key was that of another request."""
    if not content:
        return result_from_json(command, stored)
    if stored.get("content") != content:
        raise KeyReused("The Idempotency-Key was sent before, with another request.", hint=KeyReused.code.info.fix)
    result = result_from_json(command, stored["result"])
    return replace(result, deduplicated=True) if isinstance(result, TriggeredBeat) else result


def _has_done_nothing(result: object) -> bool:
    """A request that was refused may be repeated with its key: the reason may have gone."""
    match result:
        case TriggeredBeat():
            return not result.success
        case RetriedRuns():
            return not any(each.success for each in result.items)
        case _:
            return False


def _execute(tx: "Transaction", now: datetime, actor: Actor, command: Command[R], environment: Environment) -> R:
    # Words from outside: one printable line each, for they are shown on every screen, and not every ledger holds all.
    who = truncate_for_message(actor.name, MAX_RECORDED_CHARS)
    command = replace(command, reason=truncate_for_message(command.reason, MAX_RECORDED_CHARS))
    # A database may begin the transaction again after a deadlock: what the first attempt has left counts for nothing.
    environment.events.clear()
    environment.stop_orders.clear()
    return cast("R", _load_handler(type(command))(tx, now, who, command, environment))


def require_scope(actor: Actor, command: Command[Any]) -> None:
    if command.scope not in actor.scopes:
        raise Forbidden(
            f"{truncate_for_message(actor.name)} is not allowed to use the command {command.kind}.",
            hint=f'The command needs the scope "{command.scope.granted_by}".',
        )


def require_reach(tx: "Transaction", actor: Actor, command: Command[Any]) -> None:
    """Raise Forbidden if the command is about something that this actor may not touch."""
    from herdbeat.service.commands.remote_permissions import check_reach  # noqa: PLC0415 -- only the server and agents need it

    check_reach(tx, actor, command)


def _load_handler(command_type: type[Command[Any]]) -> Callable[..., Any]:
    names = (name for handled_type, name in _HANDLERS.items() if issubclass(command_type, handled_type))
    module, _, function = next(names).partition(":")
    return cast("Callable[..., Any]", getattr(import_module(f"herdbeat.service.commands.{module}"), function))


EXECUTE = "execute"
"""The word of the control socket for every command."""

LOCK_TIMEOUT_S = 5.0
"""Seconds to wait for another process that writes into the same ledger for a moment."""

POLL_INTERVAL_S = 0.05

SendRequest = Callable[[Path, Mapping[str, object], float], Mapping[str, Any]]
"""How a request reaches the process that runs the fleet of a state directory. Raises NotRunning if there is none."""

OnProgress = Callable[[int, int], None]
"""Called with how many subjects of a bulk command are done, and how many there are."""


def create_request_id() -> str:
    return uuid4().hex


_KEYED = "key:"
"""Begins the id of a request that its sender names by a key: `key:CONTENT:NAME`."""


def build_keyed_request_id(owner: str, key: str, content: str) -> str:
    """Return the id of a request whose sender gave it a key. `content` is all that a repetition has to have, too.

    Only hashes are stored: the key is a word of the sender, and the content has prompts.
    """
    return f"{_KEYED}{_hash_texts(content)}:{_hash_texts(owner, key)}"


def split_request_id(request_id: str) -> tuple[str, str]:
    """Return the name under which the result of a request is kept, and what it has to have; empty without a key."""
    if not request_id.startswith(_KEYED):
        return request_id, ""
    content, _, name = request_id.removeprefix(_KEYED).partition(":")
    return f"{_KEYED}{name}", content


def _hash_texts(*words: str) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:40]


def build_part_request_id(request_id: str, number: int) -> str:
    """Return the id of one transaction of a command. The first keeps it: a part is not split again on its way."""
    return f"{request_id}.{number}" if request_id and number else request_id


class NotRunning(HerdbeatError):
    """Nothing answers at the socket: no process runs the fleet, or it is about to start or to end."""

    code = Code.SCHEDULER


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[R_co]):
    """A result, and who acts on it. `pid` is the process here that executed the command, if it was not this one.

    Without a live node the change is stored, and takes effect at the next start.
    """

    result: R_co
    has_live_node: bool
    pid: int | None = None


class FleetAccess(Protocol):
    """What a dispatcher needs to know of a fleet from outside."""

    @property
    def path(self) -> StoreLocation: ...

    @property
    def state_dir(self) -> Path: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def fleet(self) -> Fleet:
        """Return the content of the files. They are read on the first call."""
        ...

    @property
    def holder_pid(self) -> int | None: ...

    def load_applied(self, path: str) -> LoadedFleet:
        """Return the fleet that an apply of this path applies. Raises ConfigError."""
        ...


class Dispatcher:
    """Runs commands on a fleet from outside of the process that runs it, if any does."""

    def __init__(self, access: FleetAccess, send: SendRequest, turns: LockTurns | None = None) -> None:
        """`turns` are those of a server, which has many changes; a command has one, and takes the lock at once."""
        self._access = access
        self._send = send
        self._turns = turns

    def run(self, actor: Actor, command: Command[R]) -> R:
        """Raises what the command raises, Conflict if a process holds the ledger and does not answer."""
        return self.deliver(actor, command).result

    def deliver(
        self, actor: Actor, command: Command[R], on_progress: OnProgress | None = None, *, request_id: str = ""
    ) -> Delivery[R]:
        """Do the same, and return who acts on it. A bulk command is many transactions: due beats come in between."""
        require_scope(actor, command)
        deliveries: list[Delivery[R]] = []
        total = len(getattr(command, command.batch_field)) if command.batch_field else 1
        # Made before the first send: the answer may be lost although the change was written.
        request_id = request_id or create_request_id()
        for number, part in enumerate(command.split()):
            deliveries.append(self._deliver_part(actor, part, build_part_request_id(request_id, number)))
            if on_progress is not None:
                on_progress(min(len(deliveries) * command.batch_size, total), total)
        return replace(deliveries[-1], result=merge_results([each.result for each in deliveries]))

    def _deliver_part(self, actor: Actor, command: Command[R], request_id: str) -> Delivery[R]:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            # A process that runs the fleet holds the lock of its state directory: without one no process would answer.
            if not self._has_turn() and self._find_node() is not None:
                with suppress(NotRunning):
                    return self.deliver_to_node(actor, command, request_id)
            offline = self._prepare(command)
            with ExitStack() as stack:
                try:
                    # Apart from the work itself, whose own Conflict is an answer and must not be tried again.
                    stack.enter_context(self._take_lock())
                except Conflict:
                    # Somebody came between the request and the lock: `up`, which answers next time, or one like us.
                    if time.monotonic() > deadline:
                        raise
                else:
                    return self._write(actor, command, replace(offline, request_id=request_id))
            time.sleep(POLL_INTERVAL_S)

    def _find_node(self) -> int | None:
        """Return the process on this machine that runs this ledger. One that runs another would change that one."""
        return find_lock_holder(self._access.state_dir, name_ledger(self._access.path))

    def _has_turn(self) -> bool:
        return self._turns is not None and self._turns.is_holding

    def _take_lock(self) -> AbstractContextManager[object]:
        lock = exclusive_lock(self._access.path)
        return lock if self._turns is None or not isinstance(self._access.path, Path) else self._turns.hold(lock)

    def deliver_to_node(self, actor: Actor, command: Command[R], request_id: str = "") -> Delivery[R]:
        """Send the command to the process on this machine that runs the fleet. Raises NotRunning if there is none."""
        request = {"do": EXECUTE, "actor": actor.to_json(), "command": command_to_json(command), "id": request_id}
        answer = self._send(self._access.state_dir, request, command.response_timeout_s)
        return Delivery(result=result_from_json(command, answer["result"]), has_live_node=True, pid=answer["pid"])

    def _prepare(self, command: Command[Any]) -> Environment:
        """Read the files that a command needs, and load its code: both took longer than the write, under the lock."""
        access = self._access
        has_live_node = not isinstance(access.path, Path) and access.holder_pid is not None
        create_store(access.path)
        if not isinstance(command, PruneHistory):
            _load_handler(type(command))
        return self._build_environment(command, has_live_node=has_live_node)

    def _write(self, actor: Actor, command: Command[R], environment: Environment) -> Delivery[R]:
        """Write into the ledger itself, whose lock we hold, or into a database, whose live nodes notice the change."""
        access = self._access
        store = create_store(access.path)
        with closing(store):
            store.open()
            if isinstance(command, PruneHistory):
                import asyncio  # noqa: PLC0415 -- no other command from outside needs an event loop

                result: Any = asyncio.run(_prune(store, access.fleet, access.clock))
            else:
                now = access.clock.now()
                result = store.write_now(lambda tx: execute(tx, now, actor, command, environment))
        return Delivery(result=result, has_live_node=environment.has_live_node)

    def _build_environment(self, command: Command[Any], *, has_live_node: bool) -> Environment:
        environment, access = Environment(has_live_node=has_live_node), self._access
        if isinstance(command, ApplyFleet):
            return replace(environment, loaded_fleet=access.load_applied(command.path))
        if isinstance(command, ImportState):
            return replace(environment, loaded_fleet=LoadedFleet(fleet=access.fleet))
        if isinstance(command, BackfillSchedule):
            return replace(environment, catchup_rate=access.fleet.catchup_rate)
        return environment


class LocalFleet(Protocol):
    """A fleet that runs in this process."""

    @property
    def fleet(self) -> Fleet:
        """The fleet that the process was started with. Its settings are in effect until the next start."""
        ...

    @property
    def node(self) -> "Node": ...

    @property
    def store(self) -> StoreHandle: ...

    @property
    def spec_cache(self) -> "SpecCache": ...

    @property
    def clock(self) -> Clock: ...

    def load_applied(self, path: str) -> LoadedFleet: ...

    def name_logins(self, tx: "Transaction") -> None:
        """Remember which account each new agent will use."""
        ...

    def set_egress(self, allow: tuple[str, ...]) -> None:
        """Let endpoints reach these private addresses from now on."""
        ...

    def set_channels(self, fleet: Fleet) -> None:
        """Tell the channels of this fleet from now on."""
        ...


class NodeDispatcher:
    """Runs commands in the process that runs the fleet: one group commit, then the loop looks again."""

    def __init__(self, local: LocalFleet, listener: EventListener = null_listener) -> None:
        self._local = local
        self._publish = safe_listener(listener)

    async def run(self, actor: Actor, command: Command[R], request_id: str = "") -> R:
        """Raises what the command raises. With a `request_id`, a command that was executed before is not repeated."""
        require_scope(actor, command)
        return merge_results(
            [
                await self._run_part(actor, part, build_part_request_id(request_id, number))
                for number, part in enumerate(command.split())
            ]
        )

    async def apply(self, actor: Actor, fleet: Fleet) -> AppliedFleet:
        """Apply a fleet that this process has read or built itself. Active runs continue."""
        return await self._write(actor, ApplyFleet(path=""), LoadedFleet(fleet=fleet))

    async def _run_part(self, actor: Actor, command: Command[R], request_id: str) -> R:
        if isinstance(command, PruneHistory):
            return cast("R", await _prune(self._local.store, self._local.fleet, self._local.clock))
        if isinstance(command, ApplyFleet):
            return cast("R", await self._load_and_apply(actor, command, request_id))
        return await self._write(actor, command, request_id=request_id)

    async def _load_and_apply(self, actor: Actor, command: ApplyFleet, request_id: str) -> AppliedFleet:
        from herdbeat.service.config_watch import load_in_thread, publish_applied, restart_required  # noqa: PLC0415

        loaded = await load_in_thread(partial(self._local.load_applied, command.path))
        result = await self._write(actor, command, loaded, request_id=request_id)
        ignored = restart_required(self._local.fleet, loaded.fleet)
        publish_applied(self._publish, self._local.clock.now(), result, ignored)
        return result

    async def _write(
        self, actor: Actor, command: Command[R], loaded: LoadedFleet | None = None, *, request_id: str = ""
    ) -> R:
        local, loop = self._local, self._local.node.loop
        if loop is None and isinstance(command, CancelSchedules | CancelRuns):
            raise Conflict("The fleet is starting.", hint="Try again in a moment.")
        environment = Environment(
            node_id=loop.node_id if loop else 0,
            local_runs={run: each.claim.schedule_id for run, each in loop.active_runs.items()} if loop else {},
            catchup_rate=local.fleet.catchup_rate,
            loaded_fleet=loaded,
            request_id=request_id,
        )
        now = local.clock.now()

        def write(tx: "Transaction") -> R:
            result = execute(tx, now, actor, command, environment)
            if command.edits_specs:
                local.name_logins(tx)
            return result

        result = await local.store.write(write)
        if command.edits_specs:
            local.spec_cache.clear()
        if loaded is not None and loaded.is_whole:
            local.set_egress(loaded.fleet.egress_allow)
            local.set_channels(loaded.fleet)
        if loop is not None:
            _stop_local_runs(loop, environment.stop_orders)
        local.node.wake()
        if command.sends_messages:
            local.node.wake_outbox()
        for event in environment.events:
            self._publish(event)
        return result


def _stop_local_runs(loop: "Loop", orders: Iterable[StopOrder]) -> None:
    """Stop them after the commit: this includes runs that were claimed while the command was written."""
    for order in orders:
        for schedule_id in order.schedules:
            loop.cancel_schedule_runs(schedule_id, order.reason, force=order.force)
        for run_id in order.runs:
            loop.cancel(run_id, order.reason, force=order.force)


async def _prune(store: StoreHandle, fleet: Fleet, clock: Clock) -> PruneResult:
    """Prune in many short transactions: one long transaction would delay the beats that are due."""
    from herdbeat.service.maintenance.retention import prune_history  # noqa: PLC0415 -- loads the run logs

    return await prune_history(store, open_audit(store.location), fleet.retention, clock.now())


# Undo: the commands that restore the state before, derived from the result alone.


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    """A command, still without its schedules, and the labels of those."""

    command: ScheduleCommand
    labels: tuple[str, ...]


def undo_steps(command: ScheduleCommand, result: ScheduleChanges) -> tuple[UndoStep, ...]:
    """Return one step for all schedules with the same state before. Empty if nothing changed or can be restored."""
    labels: dict[ScheduleCommand, list[str]] = {}
    for each in result.changed:
        inverse = _invert(command.what, each.before, each.after)
        if inverse is None:
            return ()
        labels.setdefault(inverse, []).append(each.schedule)
    return tuple(UndoStep(command=inverse, labels=tuple(names)) for inverse, names in labels.items())


def _invert(what: ChangeKind, before: ChangeData, after: ChangeData) -> ScheduleCommand | None:
    match what:
        case ChangeKind.HINT | ChangeKind.CLEAR_HINTS if "changed_at" in after:
            # Not `ClearHints`: a rule's own hint, and what the new one replaced, would be lost with it.
            return RestoreHints(changed_at=parse_stored_timestamp(str(after["changed_at"])))
        case ChangeKind.PAUSE | ChangeKind.RESUME if before["paused"]:
            # With the end and the reason it had: a pause for two hours came back as one without an end.
            until = None if before["until"] is None else parse_stored_timestamp(str(before["until"]))
            return PauseSchedules(until=until, reason=str(before["reason"] or ""))
        case ChangeKind.PAUSE | ChangeKind.RESUME:
            return ResumeSchedules()
        case ChangeKind.SKIP:
            return SkipBeats(count=int(str(before["skips"])))
        case _:
            return _INVERSES.get(what)


_INVERSES: dict[ChangeKind, ScheduleCommand] = {
    ChangeKind.DISABLE: EnableSchedules(),
    ChangeKind.ENABLE: DisableSchedules(),
}
