"""What people ask of single beats and runs: the side of the ledger that skip, cancel, retry and backfill work on."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.store.micros import to_micros
from herdbeat.store.rows import LastAttempt, PendingBeat
from herdbeat.store.upkeep import SqlMaintenanceTransaction, read_pending_beats


class SqlRunRequestTransaction(SqlMaintenanceTransaction):
    def set_skips(self, schedule_id: int, skips: int, by: str, reason: str) -> None:
        self._connection.execute("set_skips", id=schedule_id, skips=skips, by=by, reason=reason)

    def schedule_consume_skips(self, used: Sequence[tuple[int, int]]) -> None:
        self._connection.execute_many("use_skips", used)

    def beat_list_pending_by_schedule(self, schedule_ids: Iterable[int]) -> list[PendingBeat]:
        return read_pending_beats(self._connection.query("waiting_of", schedule_ids))

    def last_attempt(self, run_id: int) -> LastAttempt | None:
        row = self._connection.query_one("last_attempt", run=run_id)
        if row is None:
            return None
        run, beat, schedule, attempt, status, outcome = row
        return LastAttempt(run, beat, schedule, attempt, RunStatus(status), BeatOutcome(outcome))

    def retry_beat(self, beat_id: int, attempt: int, *, by: str, reason: str, now: datetime) -> None:
        self._connection.execute("retry_beat", id=beat_id, attempt=attempt, by=by, reason=reason, now=to_micros(now))

    def mark_retries(self, runs: Sequence[tuple[int, str]]) -> None:
        self._connection.execute_many("mark_retries", runs)

    def run_request_stop(
        self,
        why: str,  # noqa: ARG002 - as of all that follows: one node has the file, and what it has it stops itself
        *,
        schedules: Sequence[int] = (),  # noqa: ARG002
        runs: Sequence[int] = (),  # noqa: ARG002
        node_id: int = 0,  # noqa: ARG002
        force: bool = False,  # noqa: ARG002
    ) -> list[tuple[int, int]]:
        return []

    def last_backfill(self, schedule_id: int) -> int:
        return int(self._connection.query_one("last_backfill", id=schedule_id)[0])
