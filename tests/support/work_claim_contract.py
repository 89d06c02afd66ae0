"""The contract of every store about claims of work items. Inherit it beside `StoreContract`."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta

from tests.support.store_contract import NOW, OpenedStore, build_beat

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.work_claim import AttemptUse, NewWorkClaim, WorkClaimRecord, WorkClaimState
from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.service.queries.work import list_work_items
from herdbeat.store.base import FinishedRun, NewRun
from herdbeat.store.location import open_reader

MINUTE = timedelta(minutes=1)


def start_run(opened: OpenedStore, name: str = "interval:1") -> int:
    snapshot = opened.schedule()
    (beat,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot, name)]))
    assert beat is not None
    return opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat, snapshot.id, 1)], 1, NOW))[0]


def end_run(opened: OpenedStore, run_id: int) -> None:
    ended = FinishedRun(run_id, NOW, Outcome(status=RunStatus.SUCCEEDED))
    opened.store.write_now(lambda tx: tx.finish_runs([ended], NOW))


def build_claim(opened: OpenedStore, run_id: int, item: str = "42", marker: str = "m1") -> NewWorkClaim:
    return NewWorkClaim(
        source="github:acme/app",
        item=item,
        marker=marker,
        schedule_id=opened.schedule().id,
        run_id=run_id,
        max_attempts=3,
        kept=WorkItem(id=item, title="Fix the \x00 login"),
        spec={"type": "github"},
    )


def add_claim(opened: OpenedStore, run_id: int, item: str = "42", marker: str = "m1") -> WorkClaimRecord:
    claim = build_claim(opened, run_id, item, marker)
    number = opened.store.write_now(lambda tx: tx.work_add(claim, NOW))
    assert number is not None
    return opened.store.write_now(lambda tx: tx.work_get([number]))[number]


def settle(opened: OpenedStore, claim: WorkClaimRecord, state: WorkClaimState, used: AttemptUse) -> None:
    opened.store.write_now(lambda tx: tx.work_change([replace(claim, state=state, used=used, ended_at=NOW)]))


class WorkClaimContract:
    def test_an_item_has_one_open_claim_whoever_asks(self, opened: OpenedStore) -> None:
        first, second = start_run(opened), start_run(opened, "interval:2")
        claim = add_claim(opened, first)
        other, next_one = (build_claim(opened, second, marker=marker) for marker in ("m2", "m3"))

        again = opened.store.write_now(lambda tx: tx.work_add(other, NOW))
        settle(opened, claim, WorkClaimState.RELEASED, AttemptUse.NONE)
        later = opened.store.write_now(lambda tx: tx.work_add(next_one, NOW))

        assert (claim.state, claim.title, claim.claimed_at) == (WorkClaimState.CLAIMING, "Fix the \ufffd login", NOW)
        assert again is None
        assert later is not None
        assert later > claim.id

    def test_items_that_are_claimed_are_taken_and_others_are_not(self, opened: OpenedStore) -> None:
        run = start_run(opened)
        add_claim(opened, run, "1", "m1")
        settle(opened, add_claim(opened, run, "2", "m2"), WorkClaimState.REPORTED, AttemptUse.FINAL)

        taken = opened.store.write_now(lambda tx: tx.work_list_taken("github:acme/app", ["1", "2", "3"]))
        elsewhere = opened.store.write_now(lambda tx: tx.work_list_taken("github:acme/other", ["1", "2", "3"]))

        assert (taken, elsewhere) == (frozenset({"1"}), frozenset[str]())

    def test_an_item_of_a_source_that_marks_nothing_stays_taken_once_it_is_done(self, opened: OpenedStore) -> None:
        run = start_run(opened)
        for number, used in (("1", AttemptUse.FINAL), ("2", AttemptUse.USED)):
            claim = replace(build_claim(opened, run, number, f"m{number}"), remembers=True)
            row = opened.store.write_now(lambda tx, claim=claim: tx.work_add(claim, NOW)) or 0  # type: ignore[misc]
            record = opened.store.write_now(lambda tx, row=row: tx.work_get([row]))[row]  # type: ignore[misc]
            settle(opened, record, WorkClaimState.REPORTED, used)

        opened.store.write_now(lambda tx: tx.work_drop(NOW + MINUTE, 100))

        assert opened.store.write_now(lambda tx: tx.work_list_taken("github:acme/app", ["1", "2"])) == {"1"}

    def test_attempts_count_since_a_person_offered_the_item(self, opened: OpenedStore) -> None:
        run, counts = start_run(opened), []
        for number, offered_at in enumerate([NOW, NOW, NOW + MINUTE]):
            claim = add_claim(opened, run, marker=f"m{number}")
            count = opened.store.write_now(
                lambda tx, claim=claim, offered_at=offered_at: tx.work_count_attempts(claim, offered_at)  # type: ignore[misc]
            )
            opened.store.write_now(
                lambda tx, claim=claim, offered_at=offered_at: tx.work_confirm(  # type: ignore[misc]
                    claim.id, attempt=1, item=claim.kept, offered_at=offered_at
                )
            )
            settle(opened, claim, WorkClaimState.REPORTED, AttemptUse.USED)
            counts.append(count)

        assert counts == [0, 1, 0]

    def test_without_a_known_offer_attempts_count_since_the_last_final_report(self, opened: OpenedStore) -> None:
        run, counts = start_run(opened), []
        uses = [AttemptUse.USED, AttemptUse.NONE, AttemptUse.FINAL, AttemptUse.USED, AttemptUse.USED]
        for number, used in enumerate(uses):
            claim = add_claim(opened, run, marker=f"m{number}")
            counts.append(opened.store.write_now(lambda tx, claim=claim: tx.work_count_attempts(claim, None)))  # type: ignore[misc]
            settle(opened, claim, WorkClaimState.RELEASED, used)

        assert counts == [0, 1, 1, 0, 1]

    def test_a_claim_is_confirmed_once(self, opened: OpenedStore) -> None:
        claim = add_claim(opened, start_run(opened))

        def confirm() -> bool:
            known = WorkItem(id="42", title="Fix it")
            return opened.store.write_now(lambda tx: tx.work_confirm(claim.id, attempt=2, item=known, offered_at=NOW))

        answers = [confirm(), confirm()]

        record = opened.store.write_now(lambda tx: tx.work_get([claim.id]))[claim.id]
        assert answers == [True, False]
        assert (record.state, record.attempt, record.title, record.offered_at) == ("claimed", 2, "Fix it", NOW)

    def test_only_claims_whose_run_has_ended_are_left_to_settle_and_each_to_one_node(self, opened: OpenedStore) -> None:
        active, ended = start_run(opened), start_run(opened, "interval:2")
        add_claim(opened, active, "1", "m1")
        claim = add_claim(opened, ended, "2", "m2")
        end_run(opened, ended)

        def take(at: timedelta) -> list[int]:
            rows = opened.store.write_now(lambda tx: tx.work_take_unsettled(NOW + at, NOW + at + MINUTE, "here", 10))
            return [row.id for row in rows]

        due = opened.store.write_now(lambda tx: tx.work_next_unsettled("here"))
        assert [take(timedelta(0)), take(MINUTE / 2), take(MINUTE)] == [[claim.id], [], [claim.id]]
        assert due is not None
        assert opened.store.write_now(lambda tx: tx.work_next_unsettled("here")) == NOW + 2 * MINUTE

    def test_what_only_another_machine_can_settle_is_left_to_it(self, opened: OpenedStore) -> None:
        run = start_run(opened)
        there = replace(build_claim(opened, run), host="there")
        opened.store.write_now(lambda tx: tx.work_add(there, NOW))
        end_run(opened, run)

        rows = opened.store.write_now(lambda tx: tx.work_take_unsettled(NOW, NOW, "here", 10))

        assert rows == []
        assert opened.store.write_now(lambda tx: tx.work_next_unsettled("here")) is None
        assert len(opened.store.write_now(lambda tx: tx.work_take_unsettled(NOW, NOW, "there", 10))) == 1

    def test_a_ledger_on_a_machine_with_a_new_name_never_settled_the_items_of_the_old_one(
        self, opened: OpenedStore
    ) -> None:
        run = start_run(opened)
        local = replace(build_claim(opened, run), host="a1b2c3")
        opened.store.write_now(lambda tx: tx.work_add(local, NOW))
        end_run(opened, run)

        opened.store.write_now(lambda tx: tx.work_take_over("d4e5f6"))

        taken = opened.store.write_now(lambda tx: tx.work_take_unsettled(NOW, NOW + MINUTE, "d4e5f6", 10))
        assert [claim.item for claim in taken] == ["42"]

    def test_an_item_whose_host_does_not_run_is_stranded_and_shown_with_its_earlier_attempts(
        self, opened: OpenedStore
    ) -> None:
        first, second = start_run(opened), start_run(opened, "interval:2")
        settle(opened, add_claim(opened, first), WorkClaimState.REPORTED, AttemptUse.USED)
        local = replace(build_claim(opened, second, marker="m2"), host="elsewhere")
        number = opened.store.write_now(lambda tx: tx.work_add(local, NOW))
        assert number is not None
        opened.store.write_now(lambda tx: tx.work_confirm(number, attempt=2, item=local.kept, offered_at=None))

        with closing(open_reader(opened.store.location)) as reader:
            shared = list_work_items(reader, NOW, only_open=True, limit=10, is_shared=True)
            alone = list_work_items(reader, NOW, only_open=True, limit=10, is_shared=False)

        assert [(each.is_stranded, [earlier.claim.run_id for earlier in each.earlier]) for each in shared] == [
            (True, [first])
        ]
        assert [each.is_stranded for each in alone] == [False]

    def test_a_change_is_written_whole(self, opened: OpenedStore) -> None:
        claim = add_claim(opened, start_run(opened))
        changed = replace(
            claim,
            state=WorkClaimState.RAN,
            used=AttemptUse.USED,
            report=Report(succeeded=False, error="no \x00 luck"),
            reason="GitHub answered 502.",
            tries=2,
            next_at=NOW + MINUTE,
            ended_at=NOW,
        )

        opened.store.write_now(lambda tx: tx.work_change([changed]))

        found = opened.store.write_now(lambda tx: tx.work_list_by_run([claim.run_id]))
        assert found == [replace(changed, report=Report(succeeded=False, error="no \ufffd luck"))]

    def test_ended_claims_are_dropped_by_age_and_open_ones_never(self, opened: OpenedStore) -> None:
        run = start_run(opened)
        add_claim(opened, run, "1", "m1")
        settle(opened, add_claim(opened, run, "2", "m2"), WorkClaimState.REPORTED, AttemptUse.FINAL)

        early = opened.store.write_now(lambda tx: tx.work_drop(NOW, 100))
        late = opened.store.write_now(lambda tx: tx.work_drop(NOW + MINUTE, 100))

        assert (early, late) == (0, 1)

    def test_an_open_run_says_whether_it_has_asked_for_work(self, opened: OpenedStore) -> None:
        plain, working = start_run(opened), start_run(opened, "interval:2")
        add_claim(opened, working)

        runs = opened.store.write_now(lambda tx: tx.open_runs([plain, working]))

        assert {number: run.has_work for number, run in runs.items()} == {plain: False, working: True}

    def test_all_runs_of_a_beat_are_listed(self, opened: OpenedStore) -> None:
        run = start_run(opened)
        beat = opened.store.write_now(lambda tx: tx.open_runs([run]))[run].beat_id
        schedule_id = opened.schedule().id
        (other,) = opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat, schedule_id, 1)], 1, NOW))
        end_run(opened, run)

        found = opened.store.write_now(lambda tx: tx.run_list_beside([beat]))

        assert {each.run_id: each.status for each in found} == {run: "succeeded", other: "running"}

    def test_claims_are_shown_by_target_and_by_run(self, opened: OpenedStore) -> None:
        run = start_run(opened)
        claim = add_claim(opened, run)
        settle(opened, add_claim(opened, run, "7", "m7"), WorkClaimState.LOST, AttemptUse.NONE)

        with closing(open_reader(opened.store.location)) as reader:
            (shown,) = reader.work_claims(target="worker")
            of_run = reader.work_claim_of_run(run)
            assert reader.work_claims(target="other") == []

        assert shown == of_run
        assert (shown.claim, shown.target, shown.schedule, shown.run_status) == (claim, "worker", "pace", "running")
