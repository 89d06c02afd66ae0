"""Commands about agents: release an account at its usage limit, acknowledge runs that needed a person."""

from datetime import datetime

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.events import AccountReleased
from herdbeat.service.commands.base import AckResult, AckRuns, ReleaseAccount, ReleasedAccount
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import Transaction


def release_account(
    tx: Transaction, now: datetime, who: str, command: ReleaseAccount, environment: Environment
) -> ReleasedAccount:
    """Release all holds of an account and wake what waits for it. An account that is not held is left as it is."""
    held = [hold for hold in tx.hold_list_open() if hold.account == command.account and hold.until > now]
    if not held:
        return ReleasedAccount(account=command.account, holds=0)
    tx.hold_release(command.account, by=who, now=now)
    after = {"released": len(held), "reason": command.reason}
    tx.add_changes([Change(at=now, who=who, what=ChangeKind.RELEASE, subject=command.account, after=after)])
    environment.events.extend(AccountReleased(now, hold.account, hold.model, who) for hold in held)
    return ReleasedAccount(account=command.account, holds=len(held))


def ack_runs(
    tx: Transaction,
    now: datetime,
    who: str,
    command: AckRuns,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> AckResult:
    """Acknowledge the open marks of these runs. Runs without one are left out of the change log."""
    marked = tx.attention_list_open(command.runs)
    acked = tx.attention_ack(list(marked), by=who, now=now)
    changes = [
        Change(
            at=now,
            who=who,
            what=ChangeKind.ACK,
            subject=label,
            after={"run": format_short_id(run_id), "reason": command.reason},
        )
        for run_id, label in marked.items()
    ]
    tx.add_changes(changes)
    return AckResult(acked=acked)
