"""What every store keeps of runs on an engine: one process takes a run, and only that one reports for it."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from tests.support.store_contract import NOW, OpenedStore, build_beat

from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.remote_run import NewRemoteRun, RemoteRun, RemoteRunState, RemoteStop
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.scheduler.remote import adopt_remote_run, describe_lost_run
from herdbeat.store.base import FinishedRun, NewRun

FIRST, SECOND = "a" * 32, "b" * 32
LEASE = timedelta(minutes=5)
LEASE_END = NOW + LEASE
AFTER_LEASE = LEASE_END + timedelta(seconds=1)
JOB = '{"lease": 300000000}'
_NUMBERS = count(1)


def add_remote_run(opened: OpenedStore, node_id: int = 7) -> int:
    """Write a run of a node that is about to be submitted, and return its number."""
    snapshot, write = opened.schedule(), opened.store.write_now
    beat = build_beat(snapshot)._replace(dedup_id=f"cron:{next(_NUMBERS)}")
    (beat_id,) = write(lambda tx: tx.add_beats([beat]))
    assert beat_id is not None
    (run_id,) = write(lambda tx: tx.add_runs([NewRun(beat_id, snapshot.id, 1)], node_id, NOW))
    new = NewRemoteRun(
        run_id=run_id,
        name=f"hb-abc-{run_id}-00000000",
        executor=ExecutorKind.RAY,
        start_by=NOW + timedelta(minutes=1),
        job=JOB,
        claim='{"run_id": 1}',
        token_digest="digest",
    )
    write(lambda tx: tx.remote_add(new, NOW))
    return run_id


def find(opened: OpenedStore, run_id: int) -> RemoteRun:
    found = opened.store.write_now(lambda tx: tx.remote_find(run_id))
    assert found is not None
    return found


def take(opened: OpenedStore, run_id: int, nonce: str = FIRST) -> bool:
    return opened.store.write_now(lambda tx: tx.remote_take(run_id, nonce, "machine", LEASE_END))


def close(opened: OpenedStore, run_id: int, now: datetime = NOW) -> None:
    finished = FinishedRun(run_id, now, Outcome(status=RunStatus.CANCELLED))
    opened.store.write_now(lambda tx: tx.finish_runs([finished], now))


class RemoteRunContract:
    def test_a_remote_run_comes_back_as_it_was_written(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)

        assert find(opened, run_id) == RemoteRun(
            run_id=run_id,
            name=f"hb-abc-{run_id}-00000000",
            executor=ExecutorKind.RAY,
            state=RemoteRunState.SUBMITTED,
            start_by=NOW + timedelta(minutes=1),
            claim='{"run_id": 1}',
        )
        assert opened.store.write_now(lambda tx: tx.remote_job(run_id)) == (JOB, "digest")
        assert opened.store.write_now(lambda tx: tx.remote_list(7)) == [find(opened, run_id)]
        assert opened.store.write_now(lambda tx: tx.remote_list(8)) == []

    def test_one_process_takes_a_run(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)

        assert [take(opened, run_id, each) for each in (FIRST, SECOND, FIRST)] == [True, False, False]

        found = find(opened, run_id)
        assert (found.state, found.nonce, found.place) == (RemoteRunState.TAKEN, FIRST, "machine")
        assert found.lease_until == LEASE_END

    def test_a_run_that_has_ended_is_to_stop_or_was_given_up_is_not_taken(self, opened: OpenedStore) -> None:
        closed, stopped, given_up = (add_remote_run(opened) for _ in range(3))
        close(opened, closed)
        opened.store.write_now(lambda tx: tx.remote_stop(stopped, "cancelled"))
        assert opened.store.write_now(lambda tx: tx.remote_end_untaken(given_up))

        assert [take(opened, each) for each in (closed, stopped, given_up)] == [False, False, False]

    def test_a_run_that_was_taken_is_not_given_up_for_being_late(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)

        assert not opened.store.write_now(lambda tx: tx.remote_end_untaken(run_id))

    def test_only_the_process_that_has_the_run_renews_it(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)

        opened.store.write_now(lambda tx: tx.remote_renew(run_id, SECOND, AFTER_LEASE))
        assert find(opened, run_id).lease_until == LEASE_END
        opened.store.write_now(lambda tx: tx.remote_renew(run_id, FIRST, AFTER_LEASE))
        assert find(opened, run_id).lease_until == AFTER_LEASE

    def test_the_first_result_stays_and_the_job_is_forgotten(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)

        def set_result(nonce: str, result: str) -> None:
            opened.store.write_now(lambda tx: tx.remote_set_result(run_id, nonce, result))

        for nonce, result in ((SECOND, "foreign"), (FIRST, "first"), (FIRST, "second")):
            set_result(nonce, result)

        assert find(opened, run_id).result == "first"
        assert opened.store.write_now(lambda tx: tx.remote_job(run_id))[0] == ""

    def test_a_lapsed_run_ends_unless_it_was_renewed_or_has_a_result(self, opened: OpenedStore) -> None:
        lost, renewed, done = (add_remote_run(opened) for _ in range(3))
        for run_id in (lost, renewed, done):
            take(opened, run_id)
        opened.store.write_now(lambda tx: tx.remote_renew(renewed, FIRST, AFTER_LEASE + timedelta(minutes=1)))
        opened.store.write_now(lambda tx: tx.remote_set_result(done, FIRST, "{}"))

        def end(run_id: int) -> bool:
            return opened.store.write_now(lambda tx: tx.remote_end_lapsed(run_id, AFTER_LEASE))

        assert [end(each) for each in (lost, renewed, done)] == [True, False, False]

    def test_parts_of_a_log_are_read_in_order_and_once(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)

        def add(sequence: int, text: str) -> None:
            opened.store.write_now(lambda tx: tx.remote_add_log(run_id, sequence, text))

        for sequence, text in ((1, "one"), (2, "two"), (2, "again")):
            add(sequence, text)

        assert opened.store.write_now(lambda tx: tx.remote_log(run_id, 0)) == [(1, "one"), (2, "two")]
        assert opened.store.write_now(lambda tx: tx.remote_log(run_id, 2)) == []
        assert opened.store.write_now(lambda tx: tx.remote_log(run_id, 0)) == []

    def test_jobs_of_open_runs_are_no_leftovers(self, opened: OpenedStore) -> None:
        live, closed, given_up = (add_remote_run(opened) for _ in range(3))
        close(opened, closed)
        opened.store.write_now(lambda tx: tx.remote_end(given_up))

        names = opened.store.write_now(lambda tx: tx.remote_live_names(ExecutorKind.RAY))

        assert names == [find(opened, live).name]
        assert opened.store.write_now(lambda tx: tx.remote_live_names(ExecutorKind.KUBERNETES)) == []

    def test_the_run_of_a_dead_node_ends_with_it_if_nobody_has_taken_it(self, opened: OpenedStore) -> None:
        untaken = add_remote_run(opened)

        assert opened.store.write_now(lambda tx: adopt_remote_run(tx, NOW, 9, untaken)) is None
        assert not take(opened, untaken)

    def test_a_taken_run_is_adopted_and_its_lease_is_extended_once(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)

        kept = opened.store.write_now(lambda tx: adopt_remote_run(tx, NOW, 9, run_id))
        assert kept == find(opened, run_id)
        assert kept.lease_until == LEASE_END
        assert opened.store.write_now(lambda tx: tx.remote_list(9)) == [kept]

        extended = opened.store.write_now(lambda tx: adopt_remote_run(tx, AFTER_LEASE, 10, run_id))
        assert extended is not None
        assert extended.lease_until == AFTER_LEASE + LEASE
        much_later = extended.lease_until + timedelta(seconds=1)
        assert opened.store.write_now(lambda tx: adopt_remote_run(tx, much_later, 11, run_id)) is None

    def test_a_run_whose_lease_is_about_to_end_gets_a_whole_one_when_a_node_starts(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)
        start = LEASE_END - timedelta(seconds=1)

        kept = opened.store.write_now(lambda tx: adopt_remote_run(tx, start, 9, run_id))

        assert kept is not None
        assert kept.lease_until == start + LEASE

    def test_a_run_outlives_every_absence_of_the_fleet_after_which_its_process_reports(
        self, opened: OpenedStore
    ) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)
        write = opened.store.write_now

        assert write(lambda tx: adopt_remote_run(tx, AFTER_LEASE, 9, run_id)) is not None
        write(lambda tx: tx.remote_renew(run_id, FIRST, AFTER_LEASE + LEASE))
        assert write(lambda tx: adopt_remote_run(tx, AFTER_LEASE + 2 * LEASE, 10, run_id)) is not None

    def test_a_result_that_its_node_did_not_live_to_record_is_recorded_by_the_next_one(
        self, opened: OpenedStore
    ) -> None:
        run_id = add_remote_run(opened)
        take(opened, run_id)
        opened.store.write_now(lambda tx: tx.remote_set_result(run_id, FIRST, "{}"))
        opened.store.write_now(lambda tx: tx.remote_end(run_id))

        kept = opened.store.write_now(lambda tx: adopt_remote_run(tx, AFTER_LEASE, 9, run_id))

        assert kept is not None
        assert kept.result == "{}"

    def test_a_request_to_stop_reaches_runs_by_their_id_and_by_their_schedule(self, opened: OpenedStore) -> None:
        by_id, by_schedule, closed = (add_remote_run(opened) for _ in range(3))
        close(opened, closed)
        schedule_id = opened.schedule().id
        first, second = RemoteStop(RunStatus.CANCELLED, "by id"), RemoteStop(RunStatus.TIMED_OUT, "by schedule: late")

        def request(stop: RemoteStop, schedules: tuple[int, ...], runs: tuple[int, ...]) -> list[tuple[int, int]]:
            return opened.store.write_now(lambda tx: tx.remote_request_stop(str(stop), schedules=schedules, runs=runs))

        assert request(first, (), (by_id, closed)) == [(schedule_id, by_id)]
        assert sorted(request(second, (schedule_id,), ())) == [(schedule_id, by_id), (schedule_id, by_schedule)]
        assert [find(opened, each).stop for each in (by_id, by_schedule, closed)] == [first, second, None]

    def test_a_run_that_was_to_be_cancelled_when_its_node_died_is_cancelled(self, opened: OpenedStore) -> None:
        run_id = add_remote_run(opened)
        opened.store.write_now(lambda tx: tx.remote_stop(run_id, str(RemoteStop(RunStatus.CANCELLED, "by anna"))))

        assert opened.store.write_now(lambda tx: adopt_remote_run(tx, NOW, 9, run_id)) is None
        lost = opened.store.write_now(lambda tx: describe_lost_run(tx, run_id))

        assert (lost.status, lost.error) == (RunStatus.CANCELLED, "by anna")

    def test_a_node_that_starts_leaves_taken_runs_alone_and_ends_the_others(self, opened: OpenedStore) -> None:
        taken, untaken = add_remote_run(opened), add_remote_run(opened)
        take(opened, taken)

        info = NodeInfo(host="here", pid=1, version="1")
        registration = opened.store.write_now(lambda tx: register_node(tx, NOW, info))

        assert [each.run_id for each in registration.adopted] == [taken]
        assert registration.interrupted == 1
        still_open = opened.store.write_now(lambda tx: tx.open_runs([taken, untaken]))
        assert list(still_open) == [taken]
        assert replace(find(opened, untaken), claim="").state is RemoteRunState.ENDED
