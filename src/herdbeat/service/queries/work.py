"""Work items in the ledger: who has each, its earlier attempts, and those that wait for a host that does not run."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.work_claim import WorkClaimView
from herdbeat.errors import NotFound, truncate_for_message
from herdbeat.service.queries.nodes import NodeState, find_nodes
from herdbeat.store.reader import Reader

MAX_NODES = 1_000
MAX_SEARCHED_CLAIMS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItemView:
    """A claim with the earlier attempts at its item, newest first.

    It `is_stranded` if only its host can report or release the item, and no node runs there.
    """

    view: WorkClaimView
    earlier: tuple[WorkClaimView, ...] = ()
    is_stranded: bool = False


def list_work_items(
    reader: Reader, now: datetime, target: str | None = None, *, only_open: bool, limit: int, is_shared: bool
) -> list[WorkItemView]:
    """Return claims, newest first. With `only_open`, those that hold an item or are blocked.

    Only of a fleet on several machines (`is_shared`) another host can be the one that does not run.
    """
    views = reader.work_claims(target, only_open=only_open, limit=limit)
    is_bound = is_shared and any(view.claim.host and view.claim.state.is_open for view in views)
    running = _list_running_hosts(reader, now) if is_bound else set()
    return [
        WorkItemView(
            view=view,
            earlier=_load_earlier_attempts(reader, view),
            is_stranded=is_bound and view.claim.state.is_open and view.claim.host not in {None, *running},
        )
        for view in views
    ]


def _list_running_hosts(reader: Reader, now: datetime) -> set[str]:
    nodes = find_nodes(reader, now, limit=MAX_NODES, holder_pid=None, include_stopped=False)
    return {node.record.host for node in nodes if node.state is NodeState.ALIVE}


def _load_earlier_attempts(reader: Reader, view: WorkClaimView) -> tuple[WorkClaimView, ...]:
    return tuple(reader.earlier_attempts(view.claim)) if view.claim.attempt > 1 else ()


def find_work_claim(reader: Reader, item: str) -> WorkClaimView:
    """Return the newest claim of an item. Raises NotFound."""
    views = reader.work_claims(limit=MAX_SEARCHED_CLAIMS)
    found = next((view for view in views if view.claim.item == item), None)
    if found is None:
        message = f'No run has taken an item "{truncate_for_message(item)}".'
        raise NotFound(message, hint="The items that were taken: herdbeat work --all")
    return found
