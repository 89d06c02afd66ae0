"""The part of the transaction that is about runs on an engine."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.remote_run import NewRemoteRun, RemoteRun, RemoteRunState
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros

REMOTE_RUN_KEPT = timedelta(days=1)
"""How long a remote run stays without its run."""


class SqlRemoteRuns:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def remote_add(self, run: NewRemoteRun, now: datetime) -> None:
        self._connection.execute(
            "add_remote_run",
            run=run.run_id,
            job_name=run.name,
            executor=str(run.executor),
            start_by=to_micros(run.start_by),
            token=run.token_digest,
            job=run.job,
            claim=run.claim,
            now=to_micros(now),
        )
        self._connection.execute("drop_remote_runs", before=to_micros(now - REMOTE_RUN_KEPT))
        self._connection.execute("drop_lost_remote_logs")

    def remote_find(self, run_id: int) -> RemoteRun | None:
        row = self._connection.query_one("find_remote_run", run=run_id)
        return None if row is None else read_remote_run(row)

    def remote_list(self, node_id: int) -> list[RemoteRun]:
        return [read_remote_run(row) for row in self._connection.query("list_remote_runs", node=node_id)]

    def remote_job(self, run_id: int) -> tuple[str, str]:
        row = self._connection.query_one("remote_job", run=run_id)
        return ("", "") if row is None else (str(row[0]), str(row[1]))

    def remote_take(self, run_id: int, nonce: str, place: str, lease_until: datetime) -> bool:
        values = {"nonce": nonce, "place": place, "lease_until": to_micros(lease_until)}
        return self._connection.execute("take_remote_run", run=run_id, **values)() > 0

    def remote_renew(self, run_id: int, nonce: str, lease_until: datetime) -> None:
        self._connection.execute("renew_remote_run", run=run_id, nonce=nonce, lease_until=to_micros(lease_until))

    def remote_set_result(self, run_id: int, nonce: str, result: str) -> None:
        self._connection.execute("set_remote_result", run=run_id, nonce=nonce, result=result)

    def remote_stop(self, run_id: int, why: str) -> None:
        self._connection.execute("stop_remote_run", run=run_id, why=why)

    def remote_request_stop(
        self, why: str, *, schedules: Sequence[int] = (), runs: Sequence[int] = ()
    ) -> list[tuple[int, int]]:
        query = self._connection.query
        found = [
            *(query("list_remote_runs_of_schedules", schedules) if schedules else ()),
            *(query("list_remote_runs_by_id", runs) if runs else ()),
        ]
        pairs = [(int(schedule), int(run)) for schedule, run in found]
        for _, run in pairs:
            self.remote_stop(run, why)
        return pairs

    def remote_set_place(self, run_id: int, place: str) -> None:
        self._connection.execute("set_remote_place", run=run_id, place=place)

    def remote_end_untaken(self, run_id: int) -> bool:
        return self._connection.execute("end_untaken_remote_run", run=run_id)() > 0

    def remote_end_lapsed(self, run_id: int, now: datetime) -> bool:
        return self._connection.execute("end_lapsed_remote_run", run=run_id, now=to_micros(now))() > 0

    def remote_end(self, run_id: int) -> None:
        self._connection.execute("end_remote_run", run=run_id)

    def remote_extend(self, run_id: int, lease_until: datetime) -> None:
        self._connection.execute("extend_remote_run", run=run_id, lease_until=to_micros(lease_until))

    def remote_adopt(self, run_id: int, node_id: int) -> None:
        self._connection.execute("adopt_remote_run", run=run_id, node=node_id)

    def remote_add_log(self, run_id: int, sequence: int, text: str) -> None:
        self._connection.execute("add_remote_log", run=run_id, sequence=sequence, text=text)

    def remote_log(self, run_id: int, after: int) -> list[tuple[int, str]]:
        self._connection.execute("drop_remote_log", run=run_id, sequence=after)
        rows = self._connection.query("list_remote_log", run=run_id, sequence=after)
        return [(int(sequence), str(text)) for sequence, text in rows]

    def remote_live_names(self, executor: ExecutorKind) -> list[str]:
        return list(self._connection.query("list_live_remote_names", executor=str(executor)))


def read_remote_run(row: Sequence[Any]) -> RemoteRun:
    run_id, name, executor, state, start_by, nonce, place, lease_until, extended, stop, result, claim, is_open = row
    return RemoteRun(
        run_id=int(run_id),
        name=name,
        executor=ExecutorKind(executor),
        state=RemoteRunState(state),
        start_by=from_micros(start_by),
        nonce=nonce,
        place=place,
        lease_until=None if lease_until is None else from_micros(lease_until),
        is_extended=bool(extended),
        stop_reason=stop,
        result=result,
        claim=claim,
        is_open=bool(is_open),
    )
