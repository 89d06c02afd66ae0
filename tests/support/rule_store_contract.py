"""The contract of every store about rules. Inherit it beside `StoreContract`."""

from contextlib import closing
from datetime import timedelta

from tests.support.store_contract import NOW, OpenedStore, build_beat

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.rule_state import RuleOutcome, RuleState, RuleStep
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.store.base import FinishedRun, NewRun, RuleEntry
from herdbeat.store.location import open_reader


def _end_run(opened: OpenedStore, name: str, outcome: Outcome) -> int:
    snapshot = opened.schedule()
    (beat,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot, name)]))
    assert beat is not None
    run_id = opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat, snapshot.id, 1)], 1, NOW))[0]
    opened.store.write_now(lambda tx: tx.finish_runs([FinishedRun(run_id, NOW, outcome)], NOW + timedelta(seconds=1)))
    return run_id


class RuleStoreContract:
    def test_the_state_of_rules_is_replaced_as_a_whole(self, opened: OpenedStore) -> None:
        schedule_id = opened.schedule().id
        fired = RuleState(matches=2, is_active=True, fired_at=NOW)
        steps = [RuleStep(rule=name, outcome=RuleOutcome.FIRED, reads={"response.a": 1.5}) for name in ("one", "two")]

        both = [RuleEntry(schedule_id, 1, fired, each) for each in steps]
        opened.store.write_now(lambda tx: tx.rule_replace_states(both, NOW))
        first = opened.store.write_now(lambda tx: tx.rule_states([schedule_id])[schedule_id])
        one = [RuleEntry(schedule_id, 2, RuleState(), steps[0])]
        opened.store.write_now(lambda tx: tx.rule_replace_states(one, NOW))
        second = opened.store.write_now(lambda tx: tx.rule_states([schedule_id])[schedule_id])

        assert first == {"one": fired, "two": fired}
        assert second == {"one": RuleState()}

    def test_what_became_of_a_rule_is_read_back(self, opened: OpenedStore) -> None:
        schedule_id = opened.schedule().id
        step = RuleStep(
            rule="odd", outcome=RuleOutcome.UNDECIDABLE, reads={"response.t": "a\x00b"}, error="x is missing"
        )

        entry = RuleEntry(schedule_id, 1, RuleState(matches=1), step)
        opened.store.write_now(lambda tx: tx.rule_replace_states([entry], NOW))

        with closing(open_reader(opened.store.location)) as reader:
            (read,) = reader.rule_steps(schedule_id).values()
        assert (read.rule, read.outcome, read.error, read.matches) == ("odd", "undecidable", "x is missing", 1)
        assert str(read.reads["response.t"]).startswith("a")

    def test_past_runs_are_read_newest_first_with_their_responses(self, opened: OpenedStore) -> None:
        first = _end_run(opened, "interval:1", Outcome(status=RunStatus.SUCCEEDED, code=200, response={"depth": 1}))
        second = _end_run(opened, "interval:2", Outcome(status=RunStatus.FAILED, code=500))

        with closing(open_reader(opened.store.location)) as reader:
            both = reader.past_runs(opened.schedule().id, limit=5)
            earlier = reader.past_runs(opened.schedule().id, before=second, limit=5)
            together = reader.past_runs_by_run([first, second], limit=5)

        assert [run.id for run in both] == [second, first]
        assert together == {first: [], second: earlier}
        assert earlier == [
            PastRun(
                id=first,
                status=RunStatus.SUCCEEDED,
                code=200,
                attempt=1,
                started_at=NOW,
                finished_at=NOW + timedelta(seconds=1),
                response={"depth": 1},
            )
        ]

    def test_a_schedule_is_found_by_name_and_never_guessed_among_several(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()
        target, _, name = snapshot.label.partition("/")

        found = [
            opened.store.write_now(lambda tx, words=words: tx.schedule_find(*words))  # type: ignore[misc]
            for words in ((target, name), (target, ""), (target, "other"), ("nobody", ""))
        ]

        assert found == [snapshot.id, None, None, None]
