"""Beats with a run for each of their work items: how such a beat has ended, once all its runs have."""

from dataclasses import dataclass, field
from typing import NamedTuple

from herdbeat.domain.agent_run import FinishReason
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.store.base import OpenRun, Transaction

_REFUSED = "refused"
_GROUP_RANKS = {RunStatus.TIMED_OUT: RunStatus.FAILED}


class EndedRun(NamedTuple):
    """How one of the runs ended. `is_refused` if a usage limit ended it: the report of it may no longer be at hand."""

    outcome: Outcome
    is_refused: bool
    tool_called: bool = False

    @property
    def rank(self) -> int:
        status = self.outcome.status
        return _GROUP_ORDER.index(_REFUSED if self.is_refused else _GROUP_RANKS.get(status, status))


@dataclass(slots=True)
class RunGroup:
    """The runs of one beat, one for each of its work items. The beat is settled with the last."""

    open_ids: set[int]
    ended: list[EndedRun] = field(default_factory=list)

    def end(self, run: OpenRun, outcome: Outcome) -> None:
        self.open_ids.discard(run.id)
        tool_called = outcome.agent is not None and outcome.agent.tool_called
        self.ended.append(EndedRun(outcome, outcome.was_refused, tool_called))

    @property
    def result(self) -> EndedRun:
        """How the beat ended: it has failed if none of its runs succeeded and one failed.

        A usage limit is no failure, whichever of the runs it refused. Of equal ends the last counts.
        """
        return min(reversed(self.ended), key=lambda run: run.rank)


_GROUP_ORDER = (
    *(RunStatus.SUCCEEDED, RunStatus.FAILED, _REFUSED, RunStatus.INTERRUPTED),
    *(RunStatus.CANCELLED, RunStatus.RUNNING, RunStatus.SKIPPED),
)


def load_run_groups(tx: Transaction, beat_ids: set[int]) -> dict[int, RunGroup]:
    """Return the runs of these beats. Of a beat with several attempts, only the newest counts."""
    groups: dict[int, RunGroup] = {}
    runs = tx.run_list_beside(beat_ids)
    newest = {beat_id: max(run.attempt for run in runs if run.beat_id == beat_id) for beat_id in beat_ids}
    for run in runs:
        if run.attempt != newest[run.beat_id]:
            continue
        group = groups.setdefault(run.beat_id, RunGroup(set()))
        if run.status is RunStatus.RUNNING:
            group.open_ids.add(run.run_id)
        else:
            outcome = Outcome(status=run.status, error=run.error, skip=_infer_skip_reason(run.status))
            group.ended.append(EndedRun(outcome, run.error_code == FinishReason.RATE_LIMITED, run.tool_called))
    return groups


def _infer_skip_reason(status: RunStatus) -> str:
    """The ledger does not keep why a single run was skipped; of several runs, such a one has lost its item."""
    return SkipReason.NO_WORK if status is RunStatus.SKIPPED else ""
