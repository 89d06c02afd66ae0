"""Beats with a run for each of their work items: how such a beat has ended, once all its runs have."""

from dataclasses import dataclass, field

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.store.base import OpenRun, Transaction


@dataclass(slots=True)
class RunGroup:
    """The runs of one beat, one for each of its work items. The beat is settled with the last."""

    open_ids: set[int]
    ended: list[Outcome] = field(default_factory=list)

    def end(self, run: OpenRun, outcome: Outcome) -> None:
        self.open_ids.discard(run.id)
        self.ended.append(outcome)

    @property
    def outcome(self) -> Outcome:
        """How the beat ended: it has failed if none of its runs succeeded and one failed."""
        return min(self.ended, key=lambda outcome: _GROUP_ORDER.index(_GROUP_RANKS.get(outcome.status, outcome.status)))


_GROUP_RANKS = {RunStatus.TIMED_OUT: RunStatus.FAILED}
_GROUP_ORDER = (
    *(RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.INTERRUPTED),
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
            group.ended.append(Outcome(status=run.status, error=run.error, skip=_skip_of(run.status)))
    return groups


def _skip_of(status: RunStatus) -> str:
    """The ledger does not keep why a single run was skipped; of several runs, such a one has lost its item."""
    return SkipReason.NO_WORK if status is RunStatus.SKIPPED else ""
