"""The state machine of the ledger with several nodes on one database: each claims, completes, stops and resumes."""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.scheduler.test_state_machine import IDENTITY, LedgerMachine, endings, waits
from tests.support import postgres_server as servers
from tests.support.postgres_nodes import LEASE, set_clock

from herdbeat.domain.policies import Catchup, OnInterrupt, Overlap
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.errors import ClaimLost
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, claim_due
from herdbeat.scheduler.complete import CompletionResult, complete_runs
from herdbeat.scheduler.membership import Registration, register_node, rescue_orphans
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import PostgresLocation, StoreHandle
from herdbeat.store.postgres.store import PostgresStore

NODE_COUNT = 3
SUCCEEDED = Outcome(status=RunStatus.SUCCEEDED)
positions = st.integers(0, 50)


class MachineNode:
    """A node without a loop. It may be suspended, and its lease is then not renewed."""

    def __init__(self, place: PostgresLocation) -> None:
        self.store = PostgresStore(place, lease=LEASE)
        self.store.open()
        self.joined = Registration(0, (), 0)
        self.stopped_at: datetime | None = None

    def join(self, now: datetime, before: int | None = None) -> None:
        self.joined = self.store.write_now(lambda tx: register_node(tx, now, IDENTITY, before))
        self.stopped_at = None

    def finish(self, now: datetime, runs: list[FinishedRun]) -> CompletionResult:
        return self.store.write_now(lambda tx: complete_runs(tx, now, runs))


class MultiNodeMachine(LedgerMachine):
    """Commands of users go through a store that is not a node, as those of the CLI do."""

    def open_store(self) -> StoreHandle:
        self.stack = ExitStack()
        url = self.stack.enter_context(servers.new_database(servers.shared_server()))
        self.database = PostgresLocation(url=url, state_dir=Path())
        self.admin = self.stack.enter_context(psycopg.connect(url, autocommit=True))
        set_clock(self.database, self.now)
        self.members = [MachineNode(self.database) for _ in range(NODE_COUNT)]
        self.turn_of = 0
        store = PostgresStore(self.database, lease=LEASE)
        store.open()
        return store

    def join(self) -> None:
        for member in self.members:
            member.join(self.now)

    @property
    def living(self) -> list[MachineNode]:
        return [member for member in self.members if member.stopped_at is None]

    @property
    def ours(self) -> list[Claim]:
        """Return the claims of nodes that are alive."""
        living = {member.joined.node_id for member in self.living}
        return [each for each in self.held if each.fence in living]

    @rule(by=waits)
    def time_passes(self, by: timedelta) -> None:
        """Advance the time. Nodes that are alive have renewed their leases."""
        self.now += by
        set_clock(self.database, self.now)
        self.admin.execute(
            "UPDATE node SET lease_until = herdbeat_now() + %s WHERE id = ANY(%s)",
            [LEASE // timedelta(microseconds=1), [member.joined.node_id for member in self.living]],
        )

    def turn_once(self) -> datetime | None:
        """Run one cycle on each node in turn. Without a node, nothing is evaluated."""
        if not (living := self.living):
            return None
        self.turn_of += 1
        member = living[self.turn_of % len(living)]
        swept = member.store.write_now(lambda tx: rescue_orphans(tx, self.now, member.joined.node_id))
        self.forget(each.run_id for each in swept.completed)
        node = ClaimContext(member.joined.node_id, 100, CatchupPacer(10), member.joined.gaps)
        claimed = member.store.write_now(lambda tx: claim_due(tx, self.now, node))
        self.keep(claimed.claims)
        return claimed.wake_at

    def forget(self, run_ids: Iterable[int]) -> None:
        over = set(run_ids)
        self.held = [each for each in self.held if each.run_id not in over]

    @precondition(lambda self: self.ours)
    @rule(place=positions, status=endings)
    def run_ends(self, place: int, status: RunStatus) -> None:
        ended = self.ours[place % len(self.ours)]
        error, skipped = "told to" if status.is_failure else "", "precheck" if status is RunStatus.SKIPPED else ""
        outcome = Outcome(status=status, error=error, skip=skipped, usage={"tokens": 90})
        finished = self.member(ended).finish(self.now, [FinishedRun(ended.run_id, self.now, outcome)])
        assert not finished.lost
        self.forget([ended.run_id])

    @precondition(lambda self: self.ours)
    @rule()
    def all_runs_end(self) -> None:
        for member in self.living:
            mine = [each.run_id for each in self.held if each.fence == member.joined.node_id]
            finished = member.finish(self.now, [FinishedRun(number, self.now, SUCCEEDED) for number in mine])
            assert sorted(each.run_id for each in finished.completed) == sorted(mine)
            self.forget(mine)

    def member(self, claimed: Claim) -> MachineNode:
        return next(member for member in self.members if member.joined.node_id == claimed.fence)

    @precondition(lambda self: self.living)
    @rule(place=positions)
    def node_stops(self, place: int) -> None:
        """Stop a node as kill -9 or SIGSTOP do: it writes nothing."""
        member = self.living[place % len(self.living)]
        member.stopped_at = self.now

    @precondition(lambda self: len(self.living) < NODE_COUNT)
    @rule(place=positions)
    def node_goes_on(self, place: int) -> None:
        """Resume a node. Within its lease it continues; otherwise its writes are rejected, and it registers as a new
        node.
        """
        stopped = [member for member in self.members if member.stopped_at is not None]
        member = stopped[place % len(stopped)]
        assert member.stopped_at is not None
        if self.now < member.stopped_at + LEASE:
            member.store.write_now(lambda tx: tx.renew_node(member.joined.node_id, self.now))
            member.stopped_at = None
            return
        before = member.joined.node_id
        mine = [each.run_id for each in self.held if each.fence == before]
        self.is_refused(member, [FinishedRun(number, self.now, SUCCEEDED) for number in mine])
        dead = {each.joined.node_id for each in stopped if each.stopped_at and self.now >= each.stopped_at + LEASE}
        member.store.session.abandon_node()
        member.join(self.now, before)  # which rescues the runs of all dead nodes
        self.forget(each.run_id for each in self.held if each.fence in dead)

    def is_refused(self, member: MachineNode, runs: list[FinishedRun]) -> None:
        try:
            member.finish(self.now, runs)
        except ClaimLost:
            return
        raise AssertionError(f"node {member.joined.node_id} has no lease, and was let write")

    @precondition(lambda self: self.living)
    @rule(
        overlap=st.sampled_from(Overlap),
        catchup=st.sampled_from(Catchup),
        attempts=st.integers(1, 3),
        on_interrupt=st.sampled_from(OnInterrupt),
    )
    def edit(self, overlap: Overlap, catchup: Catchup, attempts: int, on_interrupt: OnInterrupt) -> None:
        self.change(overlap, catchup, attempts, on_interrupt)

    @rule(down=waits)
    def crash_and_return(self, down: timedelta) -> None:
        """Kill all nodes at once, and start one."""
        for member in self.living:
            member.stopped_at = self.now
        self.time_passes(down)
        self.node_goes_on(0)

    @invariant()
    def every_instant_is_accounted_for(self) -> None:
        """Check the ledger, if there is a node: without one, the next node has to account for the instants."""
        if self.living:
            self.check_all()

    @invariant()
    def no_target_has_more_than_its_room(self) -> None:
        rooms = self.store.write_now(lambda tx: {row[0]: row[1].max_concurrent for row in tx.targets().values()})
        for target_id, running in Counter(each.target_id for each in self.held).items():
            assert running <= rooms[target_id]

    def teardown(self) -> None:
        for store in (self.store, *(member.store for member in self.members)):
            store.close()
        self.stack.close()
