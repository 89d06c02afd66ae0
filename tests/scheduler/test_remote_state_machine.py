"""The state machine of the ledger, with runs on an engine: they outlive their node, and one process has each."""

from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.scheduler.test_state_machine import IDENTITY, LedgerMachine, waits

from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.remote_run import NewRemoteRun, RemoteRun, RemoteRunState, TakeDecision, decide_take
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.membership import register_node
from herdbeat.store.base import FinishedRun, Transaction

LEASE = timedelta(minutes=5)
JOB = f'{{"lease": {LEASE // timedelta(microseconds=1)}}}'
places = st.integers(0, 50)
processes = st.sampled_from(["one", "two", "three"])


class RemoteLedgerMachine(LedgerMachine):
    """All runs are submitted to an engine, which may start several processes for each, at any time."""

    def __init__(self) -> None:
        self.submitted: list[int] = []
        self.takers: dict[int, set[str]] = {}
        super().__init__()

    def keep(self, claims: list[Claim]) -> None:
        super().keep(claims)
        for each in claims:
            self._submit(each.run_id)

    def _submit(self, run_id: int) -> None:
        new = NewRemoteRun(
            run_id=run_id,
            name=f"hb-m-{run_id}-0",
            executor=ExecutorKind.RAY,
            start_by=self.now + LEASE,
            job=JOB,
            claim='{"run_id": 1}',
        )
        self.store.write_now(lambda tx: tx.remote_add(new, self.now))
        self.submitted.append(run_id)

    @precondition(lambda self: self.submitted)
    @rule(place=places, nonce=processes)
    def take(self, place: int, nonce: str) -> None:
        """A process of the engine asks for a run, however late, and starts its program if it gets it."""
        run_id = self.submitted[-1 - place % len(self.submitted)]

        def ask(tx: Transaction) -> bool:
            decision = decide_take(tx.remote_find(run_id), nonce)
            return decision is TakeDecision.TAKE and tx.remote_take(run_id, nonce, "machine", self.now + LEASE)

        if self.store.write_now(ask):
            self.takers.setdefault(run_id, set()).add(nonce)
            assert run_id in {each.run_id for each in self.held}, "a run that has ended is taken"

    @precondition(lambda self: self.submitted)
    @rule(place=places, nonce=processes)
    def renew(self, place: int, nonce: str) -> None:
        run_id = self.submitted[place % len(self.submitted)]
        before = self.find(run_id)
        self.store.write_now(lambda tx: tx.remote_renew(run_id, nonce, self.now + LEASE))
        if before is not None and before.nonce != nonce:
            assert self.find(run_id) == before, "a process renews the run of another"

    @precondition(lambda self: self.submitted)
    @rule(place=places, nonce=processes)
    def report(self, place: int, nonce: str) -> None:
        """A process sends a result: only the one that has the run is heard, and only once."""
        run_id = self.submitted[place % len(self.submitted)]
        before = self.find(run_id)
        self.store.write_now(lambda tx: tx.remote_set_result(run_id, nonce, f"result of {nonce}"))
        after = self.find(run_id)
        if before is not None and after is not None and after.result != before.result:
            assert before.is_taken_by(nonce) or not before.is_open
            assert not before.result

    @precondition(lambda self: self.submitted)
    @rule(place=places)
    def node_gives_up(self, place: int) -> None:
        """The node follows a run: one whose process is lost, or that nobody took in time, is interrupted."""
        run_id = self.submitted[place % len(self.submitted)]
        run = self.find(run_id)
        claim = next((each for each in self.held if each.run_id == run_id), None)
        if run is None or claim is None:
            return

        def end(tx: Transaction) -> bool:
            if run.is_overdue(self.now):
                return tx.remote_end_untaken(run_id)
            return run.has_lapsed(self.now) and tx.remote_end_lapsed(run_id, self.now)

        if self.store.write_now(end):
            self.held.remove(claim)
            done = FinishedRun(run_id, self.now, Outcome(status=RunStatus.INTERRUPTED, error="lost"))
            assert not self.store.write_now(lambda tx: complete_runs(tx, self.now, [done])).lost

    @rule(down=waits)
    def crash_and_return(self, down: timedelta) -> None:
        """What a process has taken goes on elsewhere, and the next node adopts it; all else ends with its node."""
        known = {each.run_id: self.find(each.run_id) for each in self.held}
        lost, self.now = self.held, self.now + down
        joined = self.store.write_now(lambda tx: register_node(tx, self.now, IDENTITY))
        self.node = ClaimContext(joined.node_id, 100, CatchupPacer(10), joined.gaps)
        adopted = {each.run_id for each in joined.adopted}
        self.held = [each for each in lost if each.run_id in adopted]

        assert adopted <= {run_id for run_id, run in known.items() if run and run.state is RemoteRunState.TAKEN}
        for run_id, run in known.items():
            if run is not None and run.state is RemoteRunState.TAKEN and not run.is_extended:
                assert run_id in adopted, "a process that may live was given up"
        late = [FinishedRun(each.run_id, self.now, Outcome(status=RunStatus.SUCCEEDED)) for each in lost]
        gone = [each for each in late if each.run_id not in adopted]
        finished = self.store.write_now(lambda tx: complete_runs(tx, self.now, gone))
        assert sorted(finished.lost) == sorted(each.run_id for each in gone)

    @invariant()
    def no_run_has_two_processes(self) -> None:
        assert all(len(each) == 1 for each in self.takers.values())

    def find(self, run_id: int) -> RemoteRun | None:
        return self.store.write_now(lambda tx: tx.remote_find(run_id))


RemoteLedgerMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRemoteLedger = RemoteLedgerMachine.TestCase
