"""What a store promises to those who ask something of single beats and runs. A part of `base`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from herdbeat.store.rows import LastAttempt, PendingBeat


class RunRequestTransaction(Protocol):
    """What people ask of single beats and runs: skip, cancel, retry, backfill."""

    def set_skips(self, schedule_id: int, skips: int, by: str, reason: str) -> None:
        """How many of the next clock instants are let pass; 0 for none."""
        ...

    def schedule_consume_skips(self, used: Sequence[tuple[int, int]]) -> None:
        """Instants (schedule, how many) that have come, and passed."""
        ...

    def beat_list_pending_by_schedule(self, schedule_ids: Iterable[int]) -> list[PendingBeat]:
        """All pending beats of these schedules, whatever they wait for."""
        ...

    def last_attempt(self, run_id: int) -> LastAttempt | None:
        """The newest run of the beat that a run belongs to; None if there is no such run."""
        ...

    def retry_beat(self, beat_id: int, attempt: int, *, by: str, reason: str, now: datetime) -> None:
        """A settled beat waits again, for an attempt by hand."""
        ...

    def mark_retries(self, runs: Sequence[tuple[int, str]]) -> None:
        """Runs (id, by whom) that have a cause of their own, beside that of their beat."""
        ...

    def run_request_stop(
        self,
        why: str,
        *,
        schedules: Sequence[int] = (),
        runs: Sequence[int] = (),
        node_id: int = 0,
        force: bool = False,
    ) -> list[tuple[int, int]]:
        """Leave word for the nodes that have these runs, or any of these schedules. Which (schedule, run) those are.

        What `node_id` has itself is left out: it knows. Whoever has a file alone has nobody to leave word for.
        """
        ...

    def last_backfill(self, schedule_id: int) -> int:
        """The number of the newest backfill that the ledger keeps; 0 if there was none."""
        ...
