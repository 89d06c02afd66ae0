"""Commands on work items: offer one again that the ledger holds or remembers."""

from dataclasses import replace
from datetime import datetime

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.work_claim import AttemptUse, WorkClaimRecord, WorkClaimState
from herdbeat.service.commands.base import ReleasedItem, ReleasedItems, ReleaseWork
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import Transaction


def release_work(
    tx: Transaction,
    now: datetime,
    who: str,
    command: ReleaseWork,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> ReleasedItems:
    """One item for each claim that exists, refusals included."""
    claims = tx.work_get(command.claims)
    active = tx.open_runs([claim.run_id for claim in claims.values()])
    labels = {number: each.label for number, each in tx.schedule_get_enabled(_list_schedules(claims)).items()}
    items: list[ReleasedItem] = []
    for claim in claims.values():
        refused = find_obstacle(claim, is_running=claim.run_id in active)
        label = labels.get(claim.schedule_id, "")
        if not refused:
            tx.work_change([release_claim(now, claim, only_ledger=command.only_ledger)])
            after = {"item": claim.item, "source": claim.source, "reason": command.reason}
            tx.add_changes([Change(at=now, who=who, what=ChangeKind.RELEASE, subject=label, after=after)])
        host = None if refused or command.only_ledger else claim.host
        items.append(
            ReleasedItem(
                item=claim.item, source=claim.source, schedule=label, success=not refused, refused=refused, host=host
            )
        )
    return ReleasedItems(items=tuple(items))


def _list_schedules(claims: dict[int, WorkClaimRecord]) -> set[int]:
    return {claim.schedule_id for claim in claims.values()}


def find_obstacle(claim: WorkClaimRecord, *, is_running: bool) -> str:
    """Return why a claim cannot be released; empty if it can. Pure."""
    if claim.state.is_open and is_running:
        run = format_short_id(claim.run_id)
        return f"run {run} works on it; stop that first: herdbeat cancel {run}"
    if claim.state is WorkClaimState.BLOCKED:
        return f"it is blocked at its source: {claim.reason}"
    if claim.state.is_open or (claim.remembers and claim.state is WorkClaimState.REPORTED):
        return ""
    return "it is not claimed"


def release_claim(now: datetime, claim: WorkClaimRecord, *, only_ledger: bool = False) -> WorkClaimRecord:
    """Return the claim so that its item can be taken again. Pure.

    What the source has marked for us is offered there again, instead of a report. Of an unconfirmed claim nobody knows
    what the source has, and the person who releases it has looked; as who releases only in the ledger has.
    """
    if not only_ledger and claim.state in (WorkClaimState.CLAIMED, WorkClaimState.RAN):
        due = replace(claim, state=WorkClaimState.CLAIMED, report=None, used=AttemptUse.NONE)
        return replace(due, next_at=now, tries=0, reason="released by hand")
    return replace(claim, state=WorkClaimState.RELEASED, used=AttemptUse.NONE, ended_at=now, reason="released by hand")
