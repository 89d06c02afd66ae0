"""One turn of the loop, inside one transaction: what is due is claimed, accounted for and decided again."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.claim import Claim
from herdbeat.domain.decision import Source
from herdbeat.domain.gap import Gap
from herdbeat.domain.policies import Catchup
from herdbeat.governor import decide
from herdbeat.scheduler.budget import open_wallets, reserve
from herdbeat.scheduler.crowd import Crowd, crowd_after, look
from herdbeat.scheduler.gates import held_by, over_at
from herdbeat.scheduler.judge import is_due, judge, state_of
from herdbeat.scheduler.overlap import REPLACED, Meeting, meet
from herdbeat.scheduler.pace import keep_pace
from herdbeat.scheduler.quarantine import Quarantined, put_away, reason_of
from herdbeat.scheduler.room import Pacer, Rooms
from herdbeat.scheduler.shares import shares
from herdbeat.scheduler.verdict import Bench, Verdict, changed
from herdbeat.scheduler.waiting import arrival_of, go_on_after, held_back
from herdbeat.store.base import (
    ChangedBeat,
    ChangedSchedule,
    Counted,
    NewBeat,
    NewRun,
    Standing,
    Transaction,
    WaitingBeat,
)

log = logging.getLogger(__name__)

BATCH = 500
"""Schedules and beats looked at in one turn: large enough to share a commit, small enough not to hold it long."""


@dataclass(slots=True)
class Claimed:
    """What a turn has claimed, whose runs are to be stopped first, and when to look again."""

    claims: list[Claim] = field(default_factory=list)
    cancel_schedules: list[int] = field(default_factory=list)
    settled: list[tuple[str, NewBeat]] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    wake_at: datetime | None = None
    crowd: Crowd | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """The process that claims: its number in the ledger, its free places, and what it knows of the past."""

    id: int
    room: int
    pacer: Pacer
    gaps: Sequence[Gap] = ()
    most: int = BATCH
    crowd: Crowd | None = None
    labels: frozenset[str] = frozenset()
    fleet_limit: int | None = None


def claim(tx: Transaction, now: datetime, node: Node) -> Claimed:
    if node.fleet_limit is not None:
        node = replace(node, room=min(node.room, node.fleet_limit - tx.running_in_all()))
        if node.room <= 0:
            return Claimed(is_full=True)  # what is due stays so, until a run of any node has ended
    # Not many more than there are places, yet never few: those of a full target take none, and must get out of the way.
    limit = min(node.most, max(node.room, BATCH // 5))
    looked = look(tx, now, limit, node.crowd)
    due = looked.due
    waiting = tx.due_beats(now, limit)
    standings = {each.id: each for each in due}
    missing = {beat.schedule_id for beat in waiting} - standings.keys()
    standings |= tx.schedules(missing) if missing else {}
    rooms = Rooms.of(node.room, tx.rooms({each.target_id for each in standings.values()}))
    rooms.wallets, rooms.labels = open_wallets(tx, now, standings.values()), node.labels
    claimed = Claimed()
    if waiting:
        # They were due before, so they have the first pick of the room.
        take_up(tx, now, node, waiting, standings, rooms, claimed)
    judged = [standings[each.id] for each in due]
    bench = Bench(now, rooms, node.pacer, node.gaps, _paced(tx, node, judged))
    verdicts: list[Verdict] = []
    for share in shares(_judged(bench, judged)):
        write(tx, bench, node, share, claimed)
        verdicts += share
    tx.move_rooms(rooms.taken)
    claimed.wake_at = tx.next_wake()
    claimed.crowd = crowd_after(looked, verdicts, rooms, node.crowd)
    return claimed


def _paced(tx: Transaction, node: Node, due: list[Standing]) -> Mapping[int, int]:
    """Only where time was lost can something be caught up, and only its schedule has to know."""
    if not node.gaps:
        return {}
    asked = [each.id for each in due if each.waiting and each.plan.policies.catchup is not Catchup.SKIP]
    return tx.paced_beats(asked) if asked else {}


def _judged(bench: Bench, due: list[Standing]) -> Iterator[Verdict]:
    """Only a full target parks: what a full node cannot start stays due, for its next turn or for other nodes."""
    for standing in due:
        if bench.rooms.node_is_full:
            return
        taken = bench.rooms.taken.get(standing.target_id, 0)
        try:
            verdict = judge(bench, standing)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one schedule, the others go on
            bench.rooms.give_back_to(standing.target_id, taken)
            verdict = put_away(bench.now, standing, error)
        yield verdict


def write(tx: Transaction, bench: Bench, node: Node, verdicts: list[Verdict], claimed: Claimed) -> None:
    """Beats before runs, runs before schedules: what is not in the ledger did not start."""
    now = bench.now
    keep_pace(tx, now, bench.pacer, verdicts)
    beats = [beat for verdict in verdicts for beat in verdict.beats]
    ids = iter(tx.add_beats(beats))
    tx.grow_beats([grown for verdict in verdicts for grown in verdict.grown], now)
    paced: list[tuple[int, datetime]] = []
    changes: list[ChangedSchedule] = []
    starts: list[Claim] = []
    for verdict in verdicts:
        beat_ids = [next(ids) for _ in verdict.beats]
        begun = _begun(verdict, beat_ids)
        if None in beat_ids:
            _stand_down(bench, verdict, beat_ids, len(verdict.starts) - len(begun))
        starts += begun
        claimed.settled += [
            (verdict.standing.label, beat) for beat in verdict.beats if beat.outcome is not BeatOutcome.RUNNING
        ]
        if verdict.quarantine is not None:
            claimed.quarantined.append(Quarantined(verdict.standing.label, verdict.quarantine))
        if verdict.cancels:
            claimed.cancel_schedules.append(verdict.standing.id)
        if begun and len(verdict.beats) == 1 and verdict.is_paced:
            paced.append((verdict.standing.id, begun[0].due_at))
        else:
            changes.append(changed(verdict, len(begun), beat_ids[-1] if beat_ids else None))
    tx.start_paced(paced, now)
    tx.change_schedules(changes)
    tx.use_skips([(verdict.standing.id, verdict.let_pass) for verdict in verdicts if verdict.let_pass])
    tx.end_one_shots(list(_used_hints(now, verdicts)), now)
    if claimed.cancel_schedules:
        tx.ask_to_stop(REPLACED, schedules=claimed.cancel_schedules, node_id=node.id)
    begun = _with_runs(tx, now, node, starts)
    reserve(tx, bench.rooms.wallets, begun)
    claimed.claims += begun


def _used_hints(now: datetime, verdicts: list[Verdict]) -> Iterator[tuple[int, datetime]]:
    """A claim uses up the one-shots of its instants, also of those that are then skipped: else they were due again."""
    for verdict in verdicts:
        if verdict.standing.hints and verdict.last_due_at is not None and is_due(now, verdict.standing):
            yield verdict.standing.id, verdict.last_due_at


def _begun(verdict: Verdict, beat_ids: list[int | None]) -> list[Claim]:
    """The claims of the beats that are ours: one whose dedup id was there already has started before."""
    begun = ((verdict.beats[place], beat_ids[place]) for place in verdict.starts)
    return [_claim(beat, beat_id, verdict.standing) for beat, beat_id in begun if beat_id is not None]


def _stand_down(bench: Bench, verdict: Verdict, beat_ids: list[int | None], known: int) -> None:
    """Beats that the ledger had already: they ran or wait already, so their places are free and time goes on."""
    log.warning("beat is known already schedule=%s", verdict.standing.label)
    for _ in range(known):
        bench.rooms.give_back(verdict.standing.target_id)
    pairs = zip(verdict.beats, beat_ids, strict=True)
    verdict.parked -= sum(beat.outcome is BeatOutcome.PENDING for beat, beat_id in pairs if beat_id is None)
    if verdict.decision is None and not verdict.parked and verdict.quarantine is None:
        state = replace(state_of(verdict.standing), anchor_at=bench.now, is_new=False)
        verdict.anchor_at = bench.now
        try:
            verdict.decision = decide(bench.now, state)
        except Exception as error:  # noqa: BLE001 - as in _judged
            verdict.quarantine = reason_of(error)


def _claim(beat: NewBeat | WaitingBeat, beat_id: int, standing: Standing) -> Claim:
    return Claim(
        run_id=0,
        beat_id=beat_id,
        schedule_id=standing.id,
        target_id=standing.target_id,
        label=standing.label,
        dedup_id=beat.dedup_id,
        due_at=beat.due_at,
        source=Source.RETRY if isinstance(beat, WaitingBeat) and beat.retried_by else beat.source,
        attempt=beat.attempt if isinstance(beat, WaitingBeat) else 1,
        revision=standing.revision,
        plan=standing.plan,
    )


def _with_runs(tx: Transaction, now: datetime, node: Node, starts: list[Claim]) -> list[Claim]:
    runs = tx.add_runs([NewRun(each.beat_id, each.schedule_id, each.attempt) for each in starts], node.id, now)
    return [Claim(run_id, *each[1:-1], node.id) for each, run_id in zip(starts, runs, strict=True)]


def take_up(
    tx: Transaction,
    now: datetime,
    node: Node,
    waiting: list[WaitingBeat],
    standings: dict[int, Standing],
    rooms: Rooms,
    claimed: Claimed,
) -> None:
    """Beats that waited: start those that may, put the others back, write off those that came too late."""
    moved: list[ChangedBeat] = []
    counted: dict[int, Counted] = {}
    starts: list[Claim] = []
    for beat in waiting:
        if rooms.node_is_full:
            break  # it stays due, and has the first pick of the next turn
        standing = standings[beat.schedule_id]
        outcome, reason, wake_at = _contained(now, beat, standing, rooms)
        is_over = outcome not in (BeatOutcome.PENDING, BeatOutcome.RUNNING)
        moved.append(ChangedBeat(beat.id, outcome, reason, wake_at, beat.attempt, is_over))
        if outcome is BeatOutcome.PENDING:
            continue
        begins = outcome is BeatOutcome.RUNNING
        clock = 1 if beat.source.is_clock and beat.attempt == 1 else 0  # a retry is not counted as waiting
        # One row for each: two changes of one schedule in one statement, and only one of them would count.
        before = counted.get(standing.id, Counted(standing.id))
        counted[standing.id] = Counted(standing.id, before.running + int(begins), before.waiting - clock)
        standings[standing.id] = standing._replace(
            running=standing.running + int(begins), waiting=standing.waiting - clock
        )
        if begins:
            starts.append(_claim(beat, beat.id, standing))
    tx.change_beats(moved, now)
    tx.count_schedules(list(counted.values()), now)
    _wake_others(tx, now, waiting, moved, rooms)
    tx.change_schedules(go_on_after(now, standings, [change for change in moved if change.settled], waiting))
    begun = _with_runs(tx, now, node, starts)
    reserve(tx, rooms.wallets, begun)
    asked = {beat.id: beat.retried_by for beat in waiting if beat.retried_by}
    tx.mark_retries([(each.run_id, asked[each.beat_id]) for each in begun if each.beat_id in asked])
    claimed.claims += begun


def _wake_others(
    tx: Transaction, now: datetime, waiting: list[WaitingBeat], moved: list[ChangedBeat], rooms: Rooms
) -> None:
    """A beat that was woken for a free place and cannot take it leaves it to the next, or nobody would wake that."""
    put_back = {
        beat.target_id
        for beat, change in zip(waiting, moved, strict=False)
        if change.outcome is not BeatOutcome.RUNNING and change.reason != SkipReason.AT_CAPACITY
    }
    for target_id in put_back:
        if rooms.free.get(target_id, 0) > 0:
            tx.wake_waiting(target_id, rooms.free[target_id], now)


def _contained(
    now: datetime, beat: WaitingBeat, standing: Standing, rooms: Rooms
) -> tuple[BeatOutcome, str, datetime | None]:
    if standing.unreadable is None:
        try:
            return _next_of(now, beat, standing, rooms)
        except Exception:
            log.exception("waiting beat skipped schedule=%s its policies cannot be used", standing.label)
    return BeatOutcome.SKIPPED, SkipReason.CONFIG_ERROR, None


def _next_of(
    now: datetime, beat: WaitingBeat, standing: Standing, rooms: Rooms
) -> tuple[BeatOutcome, str, datetime | None]:
    policies = standing.plan.policies
    # Of the clock's first attempts only: what somebody asked for does not grow stale, and what has run was not missed.
    is_first = beat.source.is_clock and beat.attempt == 1
    if is_first and policies.max_late is not None and now > beat.due_at + policies.max_late:
        return BeatOutcome.MISSED, MissedReason.TOO_LATE, None
    meeting = meet(policies.overlap, running=standing.running > 0, waiting=False)
    is_free = meeting is Meeting.START or not (beat.attempt == 1 or beat.retried_by)
    is_gated = standing.plan.is_gated or standing.id in rooms.wallets
    held = held_by(arrival_of(now, beat, standing, rooms, is_free=is_free)) if is_gated else None
    if held is not None:
        return held_back(beat, held)
    ends_at = over_at(policies, beat.due_at) if is_first else None
    if not is_free:
        return BeatOutcome.PENDING, SkipReason.ALREADY_RUNNING, ends_at
    if rooms.take(beat.target_id):
        rooms.spend(standing.id)
        return BeatOutcome.RUNNING, "", None
    return BeatOutcome.PENDING, SkipReason.AT_CAPACITY, ends_at
