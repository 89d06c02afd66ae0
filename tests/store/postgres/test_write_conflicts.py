"""Two who change the same thing at the same moment: the second waits, and goes by what the first has left."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import psycopg
import pytest
from tests.support.postgres_nodes import UTC_ZONE, ManualNode, build_fleet, open_nodes, set_clock

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec, Target
from herdbeat.errors import Conflict
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, claim_due, move_clock_back
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import RetryResult, enqueue_manual, retry_run
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.service.commands.base import Actor, CreateToken, TriggerSchedule, UpsertedSchedule, UpsertSchedule
from herdbeat.service.commands.dispatch import Environment, build_keyed_request_id, execute
from herdbeat.service.commands.fleet import build_new_target
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.reader import Filter
from herdbeat.triggers.cron import Cron

T = TypeVar("T")
U = TypeVar("U")

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
FAILED = Outcome(status=RunStatus.FAILED, error="told to")
PATIENCE = 20


@pytest.fixture
def pair(database: PostgresLocation) -> Iterator[list[ManualNode]]:
    """Two nodes and a schedule whose first run has failed."""
    set_clock(database, NOW)
    with open_nodes(database, 2) as both:
        both[0].store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker", room=1), NOW))
        for node in both:
            node.join(NOW)
        (first,) = both[0].claim(NOW).claims
        both[0].store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(first.run_id, NOW, FAILED)]))
        yield both


def meet(pair: list[ManualNode], first: Callable[[Transaction], T], second: Callable[[Transaction], U]) -> tuple[T, U]:
    """The second begins when the first has done all of its work and not committed yet, and comes to wait for it."""
    is_done, may_commit = threading.Event(), threading.Event()

    def held(tx: Transaction) -> T:
        result = first(tx)
        tx.gaps(NOW)  # an answer, so that all of it is done
        is_done.set()
        assert may_commit.wait(PATIENCE)
        return result

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(pair[0].store.write_now, held)
        assert is_done.wait(PATIENCE)
        other = pool.submit(pair[1].store.write_now, second)
        wait_until_somebody_waits(pair[0].store.location)
        may_commit.set()
        return one.result(PATIENCE), other.result(PATIENCE)


def wait_until_somebody_waits(place: PostgresLocation) -> None:
    waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(place.url, autocommit=True) as connection:
        while connection.execute(waits).fetchone() is None:
            pass


def claiming(node: ManualNode) -> Callable[[Transaction], ClaimResult]:
    return lambda tx: claim_due(tx, NOW, ClaimContext(node.joined.node_id, 10, CatchupPacer(10)))


def test_a_beat_that_another_node_had_just_started_was_called_off(pair: list[ManualNode]) -> None:
    fired = pair[0].store.write_now(lambda tx: enqueue_manual(tx, NOW, 1, origin="human:you", event_id="e"))

    turn, called_off = meet(pair, claiming(pair[0]), lambda tx: cancel_pending(tx, NOW, [1]))

    assert [each.beat_id for each in turn.claims] == [fired.beat_id]
    assert called_off == {}
    assert outcomes(pair)[fired.beat_id] is BeatOutcome.RUNNING


def test_two_requests_for_the_same_retry_start_one_attempt(pair: list[ManualNode]) -> None:
    def retry_and_claim(tx: Transaction) -> list[Claim]:
        retry_run(tx, NOW, 1, by="human:you")
        return claiming(pair[0])(tx).claims

    def ask_too(tx: Transaction) -> RetryResult | None:
        return retry_run(tx, NOW, 1, by="human:me")

    claims, refused = meet(pair, retry_and_claim, ask_too)

    assert [each.attempt for each in claims] == [2]
    assert refused is not None
    assert refused.obstacle == "it is still running"
    assert pair[1].claim(NOW).claims == []


def test_a_beat_that_was_skipped_while_it_was_woken_was_due_for_ever(pair: list[ManualNode]) -> None:
    """Two locks, and the wake has only the target's: it found the beat pending, and waited for it to be settled."""
    target, _ = pair[0].store.write_now(lambda tx: tx.targets())["worker"]
    fired = pair[0].store.write_now(lambda tx: enqueue_manual(tx, NOW, 1, origin="human:you", event_id="e"))
    assert fired.beat_id is not None
    make_it_wait(pair[0].store.location, fired.beat_id)

    meet(
        pair,
        lambda tx: tx.skip_waiting(1, "paused", NOW),
        lambda tx: tx.beat_wake_pending(target, 1, NOW),
    )

    assert outcomes(pair)[fired.beat_id] is BeatOutcome.SKIPPED
    assert pair[0].claim(NOW).wake_at > NOW  # type: ignore[operator]


def make_it_wait(place: PostgresLocation, beat_id: int) -> None:
    """For room, as a beat of the clock does."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE beat SET reason = 'at_capacity', source = 'baseline-interval', wake_at = NULL WHERE id = %s",
            [beat_id],
        )


def outcomes(pair: list[ManualNode]) -> dict[int | None, BeatOutcome]:
    reader = open_reader(pair[0].store.location)
    try:
        return {beat.id: beat.outcome for beat in reader.beats(Filter())}
    finally:
        reader.close()


def test_a_row_that_grew_while_the_clock_was_set_back_covered_an_instant_that_ran_later(
    database: PostgresLocation,
) -> None:
    """One node listed rows to cut, then waited for another, which had not noticed the clock and added to one."""
    minute = timedelta(minutes=1)
    fleet = build_fleet("worker")
    (schedule,) = fleet.schedules
    fleet = replace(fleet, schedules=(replace(schedule, trigger=Cron.parse("* * * * *", UTC_ZONE)),))
    set_clock(database, NOW + 10 * minute)
    with open_nodes(database, 2) as both:
        first, second = both
        first.store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))
        for node in both:
            node.join(NOW)
        (run,) = first.claim(NOW + minute).claims
        first.claim(NOW + 2 * minute)
        first.claim(NOW + 3 * minute + timedelta(seconds=5))

        set_back_to = NOW + 3 * minute + timedelta(seconds=2)
        ahead = ClaimContext(first.joined.node_id, 10, CatchupPacer(10))
        meet(
            both,
            lambda tx: claim_due(tx, NOW + 4 * minute, ahead),
            lambda tx: move_clock_back(tx, set_back_to, minute),
        )
        first.store.write_now(
            lambda tx: complete_runs(
                tx, set_back_to, [FinishedRun(run.run_id, NOW, Outcome(status=RunStatus.SUCCEEDED))]
            )
        )
        second.claim(set_back_to)
        second.claim(NOW + 4 * minute)

        with closing(open_reader(first.store.location)) as reader:
            rows = {(each.due_at, each.last_due_at): (each.outcome, each.count) for each in reader.beats(Filter())}
    assert rows == {
        (NOW + minute, NOW + minute): (BeatOutcome.RAN, 1),
        (NOW + 2 * minute, NOW + 3 * minute): (BeatOutcome.SKIPPED, 2),
        (NOW + 4 * minute, NOW + 4 * minute): (BeatOutcome.RUNNING, 1),
    }


def test_two_servers_that_create_one_name_at_the_same_moment_do_not_both_win(pair: list[ManualNode]) -> None:
    """Each had read that there is none. The second one then changed what the first had created, and said 201."""
    new = build_endpoint("probe")

    made, refused = meet(pair, creating(new), refusable(creating(replace(new, reason="mine"))))

    assert isinstance(made, UpsertedSchedule)
    assert isinstance(refused, Conflict)


def test_two_requests_with_one_key_at_the_same_moment_are_one(pair: list[ManualNode]) -> None:
    """The second was refused as if the key were that of somebody else, or failed."""
    keyed = Environment(request_id=build_keyed_request_id("me", "deploy-7", "the same"))
    command = TriggerSchedule(schedule=1, queue=True, dedup_id="deploy-7", is_private_id=True)

    first, again = meet(
        pair, *(lambda tx, _=each: execute(tx, NOW, Actor(name="human:me"), command, keyed) for each in range(2))
    )

    assert (first.deduplicated, again.deduplicated) == (False, True)
    assert again.beat == first.beat


def test_two_runs_by_hand_with_one_dedup_id_at_the_same_moment_are_one(pair: list[ManualNode]) -> None:
    """The second was refused without a reason: "was not started: None"."""
    command = TriggerSchedule(schedule=1, queue=True, dedup_id="deploy-7")

    first, again = meet(
        pair, *(lambda tx, _=each: execute(tx, NOW, Actor(name="human:me"), command) for each in range(2))
    )

    assert (first.success, again.success, again.deduplicated) == (True, True, True)
    assert again.beat == first.beat


def test_two_tokens_of_one_name_at_the_same_moment_are_refused_and_no_failure(pair: list[ManualNode]) -> None:
    def create(digest: str) -> Callable[[Transaction], object]:
        command = CreateToken(name="ci", grants="read", digest=digest)
        return lambda tx: execute(tx, NOW, Actor(name="human:you"), command)

    _, refused = meet(pair, create("a"), refusable(create("b")))

    assert isinstance(refused, Conflict)


def build_endpoint(name: str) -> UpsertSchedule:
    target = Target(name=name, spec=EndpointSpec(url="https://api.example.com/"))
    return UpsertSchedule(what=ChangeKind.ADD, target=name, new_target=build_new_target(target))


def creating(command: UpsertSchedule) -> Callable[[Transaction], UpsertedSchedule]:
    return lambda tx: execute(tx, NOW, Actor(name="human:you"), command)


def refusable(write: Callable[[Transaction], T]) -> Callable[[Transaction], T | Conflict]:
    """Return the refusal, for the transaction of a test ends with it."""

    def attempt(tx: Transaction) -> T | Conflict:
        try:
            return write(tx)
        except Conflict as refused:
            return refused

    return attempt
