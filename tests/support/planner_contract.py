"""What every store keeps of the planner."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

from tests.support.store_contract import OpenedStore

from herdbeat.domain.planner import ActionKind, PlannedAction, PlannerSession, SessionStatus, ToolUse
from herdbeat.store.location import open_reader

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def make_session(started_at: datetime = NOON, usd: float | None = 0.25) -> PlannerSession:
    action = PlannedAction(kind=ActionKind.PROPOSE_INTERVAL, schedule="queue", reason="it grows", every_s=30.0)
    return PlannerSession(
        group="shop",
        model="m",
        status=SessionStatus.COMPLETED,
        started_at=started_at,
        finished_at=started_at,
        next_at=started_at + timedelta(minutes=10),
        reasoning="It grows.",
        actions=(action,),
        calls=(ToolUse(tool="submit_analysis", arguments={"summary": "It grows."}, answer="{}"),),
        warnings=("odd",),
        input_tokens=7,
        output_tokens=3,
        usd=usd,
    )


class PlannerContract:
    def test_a_group_is_taken_once_and_again_when_its_next_analysis_is_due(self, opened: OpenedStore) -> None:
        write = opened.store.write_now
        groups = ("shop", "bank")

        taken = [write(lambda tx: tx.planner_take_group(groups, NOON, LATER)) for _ in range(3)]
        write(lambda tx: tx.planner_add_session(make_session()))
        early = write(lambda tx: tx.planner_take_group(groups, NOON + timedelta(minutes=9), LATER))
        due = write(lambda tx: tx.planner_take_group(groups, NOON + timedelta(minutes=10), LATER))

        assert taken == ["bank", "shop", None]
        assert (early, due) == (None, "shop")

    def test_sessions_are_listed_newest_first_with_what_they_used(self, opened: OpenedStore) -> None:
        opened.store.write_now(lambda tx: tx.planner_add_session(make_session()))
        opened.store.write_now(lambda tx: tx.planner_add_session(make_session(LATER, usd=None)))

        with closing(open_reader(opened.store.location)) as reader:
            newest, oldest = reader.planner_sessions("shop")
            single = reader.planner_sessions(session_id=oldest.id)
            older = reader.planner_sessions(before=newest.id)
            none = reader.planner_sessions("bank")
            all_day, later = reader.planner_usage(NOON), reader.planner_usage(LATER)

        assert (newest.started_at, newest.usd, oldest.usd) == (LATER, None, 0.25)
        assert single == older == [oldest]
        assert none == []
        assert (oldest.actions, oldest.calls, oldest.warnings) == (
            make_session().actions,
            make_session().calls,
            ("odd",),
        )
        assert (all_day.sessions, all_day.tokens, all_day.usd) == (2, 20, 0.25)
        assert (later.sessions, later.usd) == (1, 0.0)
