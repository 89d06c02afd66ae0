"""`execute`: the only writer of changes. One table leads from the type of a command to its handler.

A handler takes `(tx, now, who, command, environment)` and returns the command's result. It runs inside one transaction,
by whichever way the command came, so its rows and its result are the same for every adapter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import truncate_for_message
from herdbeat.events import Event
from herdbeat.service.commands.base import (
    Actor,
    ApplyFleet,
    BackfillSchedule,
    CancelRuns,
    CancelSchedules,
    ClearHints,
    Command,
    DeleteSchedule,
    DisableSchedules,
    EnableSchedules,
    Forbidden,
    HintSchedules,
    ImportState,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    RetryRuns,
    SkipBeats,
    TriggerSchedule,
    UpsertSchedule,
)

if TYPE_CHECKING:
    from herdbeat.store.base import Transaction

R = TypeVar("R")

MAX_WORDS_CHARS = 200
"""Letters of a name or a reason that are kept."""


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
    once the transaction is durable.
    """

    node_id: int = 0
    local_runs: Mapping[int, int] = field(default_factory=dict)
    has_live_node: bool = True
    catchup_rate: float = 10
    loaded_fleet: LoadedFleet | None = None
    events: list[Event] = field(default_factory=list)
    stop_orders: list[StopOrder] = field(default_factory=list)

    def stop(self, tx: "Transaction", order: StopOrder) -> list[tuple[int, int]]:
        """End these runs here, and request it of the nodes that have the others. Return all, as (schedule, run).

        A run of our own that has not begun yet is requested like a foreign one: this node takes that up itself.
        """
        self.stop_orders.append(order)
        local = [(schedule, run) for run, schedule in self.local_runs.items() if _is_ordered(order, schedule, run)]
        local_ids = {run for _, run in local}
        remote_runs = [run for run in order.runs if run not in local_ids]
        if not order.schedules and not remote_runs:
            return local
        node_id = self.node_id if order.schedules else 0
        remote = tx.run_request_stop(
            order.reason, schedules=order.schedules, runs=remote_runs, node_id=node_id, force=order.force
        )
        return [*local, *remote]


def _is_ordered(order: StopOrder, schedule: int, run: int) -> bool:
    return schedule in order.schedules or run in order.runs


_HANDLERS: dict[type[Command[Any]], str] = {
    **dict.fromkeys(
        (
            PauseSchedules,
            ResumeSchedules,
            DisableSchedules,
            EnableSchedules,
            HintSchedules,
            ClearHints,
            ResetSchedules,
            SkipBeats,
        ),
        "schedules:change_schedules",
    ),
    CancelSchedules: "runs:cancel_schedules",
    CancelRuns: "runs:cancel_runs",
    RetryRuns: "runs:retry_runs",
    BackfillSchedule: "runs:backfill_schedule",
    TriggerSchedule: "runs:trigger_schedule",
    UpsertSchedule: "fleet:upsert_schedule",
    DeleteSchedule: "fleet:delete_schedule",
    ApplyFleet: "fleet:apply_loaded_fleet",
    ImportState: "fleet:import_states",
}
"""Handlers by name: `pause` must not load what `apply` needs, which is half the tree."""


def execute(
    tx: "Transaction", now: datetime, actor: Actor, command: Command[R], environment: Environment | None = None
) -> R:
    """Do it, and write what changed into the change log. Raises Forbidden, UsageError, NotFound or Conflict."""
    require_scope(actor, command)
    # Words from outside: one printable line each, for they are shown on every screen, and not every ledger holds all.
    who = truncate_for_message(actor.name, MAX_WORDS_CHARS)
    command = replace(command, reason=truncate_for_message(command.reason, MAX_WORDS_CHARS))
    result: R = _load_handler(_HANDLERS[type(command)])(tx, now, who, command, environment or Environment())
    return result


def require_scope(actor: Actor, command: Command[Any]) -> None:
    if command.scope not in actor.scopes:
        raise Forbidden(
            f"{truncate_for_message(actor.name)} may not {command.kind}.", hint=f'It needs the scope "{command.scope}".'
        )


@cache
def _load_handler(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    handler: Callable[..., Any] = getattr(import_module(f"herdbeat.service.commands.{module}"), function)
    return handler
