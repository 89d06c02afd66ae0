"""The part of the contract of every store that only agents use."""

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.support.agent_reports import make_report
from tests.support.store_contract import FIVE_MINUTES, NOW, OpenedStore, build_beat, build_fleet

from herdbeat.domain.account_hold import AccountHold, AccountUse
from herdbeat.domain.agent_run import AgentStep, ModelPrice, RunSpend, SessionTotals, SpendSource, TokenUsage
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.budget import FLEET_OWNER
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.store.base import (
    AgentRunRow,
    AttentionClearing,
    AttentionMark,
    ChangedBeat,
    ClearingScope,
    FinishedRun,
    NewRun,
    RunCostRow,
    SessionKey,
    SessionRow,
    Transaction,
)
from herdbeat.store.location import StoreHandle, open_reader

KEY = SessionKey("claude", "5e55")
USED = TokenUsage(input_tokens=1_000, cache_read_tokens=300, output_tokens=50)


def build_agent_fleet() -> Fleet:
    """Build the fleet of the contract with an agent as its only target."""
    fleet = build_fleet(pace=FIVE_MINUTES)
    spec = AgentSpec(runtime="claude", working_directory=".", model="opus")
    return replace(fleet, targets=(Target(name="worker", spec=spec, max_concurrent=2),))


class AgentStoreContract:
    """Inherit it, and provide a fixture `store` that is open and empty."""

    @pytest.fixture
    def agents(self, store: StoreHandle) -> OpenedStore:
        store.write_now(lambda tx: apply_fleet(tx, build_agent_fleet(), NOW))
        return OpenedStore(store)

    def test_an_answer_comes_back_with_its_steps_and_its_prompt(self, agents: OpenedStore) -> None:
        step = AgentStep(name="Bash", detail="make test", started_at=NOW, ended_at=NOW + timedelta(seconds=2), ok=True)
        report = make_report(
            answer="Fixed \x00it", steps=(step,), turns=3, model="opus", account="team", quiet=True, prompt="Fix {it}"
        )
        run = _start_run(agents)

        agents.store.write_now(lambda tx: tx.agent_run_add_many([AgentRunRow(run, report)]))

        with closing(open_reader(agents.store.location)) as reader:
            found = reader.agent_run(run)
        assert found is not None
        assert (found.answer, found.prompt, found.turns) == ("Fixed \N{REPLACEMENT CHARACTER}it", "Fix {it}", 3)
        assert (found.model, found.account, found.quiet, found.empty_answer) == ("opus", "team", True, False)
        assert found.steps == (step,)

    def test_agents_without_an_account_are_listed_until_they_have_one(self, agents: OpenedStore) -> None:
        missing = agents.store.write_now(lambda tx: tx.account_list_missing())
        (number,) = missing

        agents.store.write_now(lambda tx: tx.account_set_many({number: "claude-1"}))

        assert '"claude"' in missing[number]
        assert agents.store.write_now(lambda tx: tx.account_list_missing()) == {}

    def test_branches_of_other_hosts_are_listed_with_their_host(self, agents: OpenedStore) -> None:
        there = NodeInfo(host="there", pid=7, version="test")
        node = agents.store.write_now(lambda tx: register_node(tx, NOW, there)).node_id
        run = _start_run(agents, node=node)
        agents.store.write_now(lambda tx: tx.agent_run_add_many([AgentRunRow(run, make_report(), "herdbeat/w/1")]))

        with closing(open_reader(agents.store.location)) as reader:
            from_here, from_there = reader.branches_elsewhere("here", 10), reader.branches_elsewhere("there", 10)

        assert [(each.host, each.target, each.branch) for each in from_here] == [("there", "worker", "herdbeat/w/1")]
        assert from_there == []

    def test_a_long_answer_is_cut_to_64_kib_in_whole_characters(self, agents: OpenedStore) -> None:
        run, report = _start_run(agents), make_report(answer="é" * 100_000)

        agents.store.write_now(lambda tx: tx.agent_run_add_many([AgentRunRow(run, report)]))

        with closing(open_reader(agents.store.location)) as reader:
            found = reader.agent_run(run)
        assert found is not None
        assert found.answer == "é" * 32_768

    def test_an_unknown_cost_is_not_zero(self, agents: OpenedStore) -> None:
        snapshot, run = agents.schedule(), _start_run(agents)
        spend = RunSpend(usage=USED, source=SpendSource.UNKNOWN, is_notional=True)

        agents.store.write_now(
            lambda tx: tx.cost_add_many([RunCostRow(run, snapshot.id, snapshot.target_id, "2026-03-02", spend)])
        )

        with closing(open_reader(agents.store.location)) as reader:
            (line,) = reader.costs("2026-03-01")
            assert reader.run_spend(run) == spend
            assert (line.schedule, line.day, line.usd, line.usage) == ("worker/pace", "2026-03-02", None, USED)
            assert reader.costs("2026-03-03") == []

    def test_a_session_is_taken_by_one_run_at_a_time(self, agents: OpenedStore) -> None:
        snapshot = agents.schedule()
        node = agents.store.write_now(lambda tx: tx.join_node("here", 1, "test", NOW))
        first, second, third = (_start_run(agents, f"interval:{number}", node) for number in range(3))
        totals = SessionTotals(usage=USED, usd=0.25)
        agents.store.write_now(lambda tx: tx.session_keep_many([SessionRow(KEY, snapshot.id, first, totals)], NOW))

        def take(run: int, host: str = "here", since: timedelta = timedelta()) -> str | None:
            return agents.store.write_now(
                lambda tx: tx.session_take(snapshot.id, "claude", host=host, run_id=run, used_since=NOW + since)
            )

        assert take(second, host="elsewhere") is None
        assert take(second, since=timedelta(seconds=1)) is None
        assert take(second) == "5e55"
        assert take(third) is None
        _end_run(agents, second)
        assert take(third) == "5e55"
        assert agents.store.write_now(lambda tx: tx.session_get_totals([KEY])) == {KEY: totals}

    def test_a_session_that_is_used_again_has_its_new_totals(self, agents: OpenedStore) -> None:
        snapshot, run = agents.schedule(), _start_run(agents)

        def keep(totals: SessionTotals, at: datetime) -> None:
            row = SessionRow(KEY, snapshot.id, run, totals)
            agents.store.write_now(lambda tx: tx.session_keep_many([row], at))

        keep(SessionTotals(usd=0.25), NOW)
        keep(SessionTotals(usage=USED, usd=0.75), NOW + timedelta(hours=1))

        with closing(open_reader(agents.store.location)) as reader:
            (found,) = reader.sessions(None, None, 10)
        assert (found.runs, found.usd, found.usage, found.in_use_by) == (2, 0.75, USED, None)
        assert (found.created_at, found.last_used_at) == (NOW, NOW + timedelta(hours=1))
        assert agents.store.write_now(lambda tx: tx.drop_sessions(NOW + timedelta(hours=2))) == 1

    def test_a_hold_is_open_until_it_is_released(self, agents: OpenedStore) -> None:
        hold = AccountHold(
            account="team", began_at=NOW, until=NOW + timedelta(hours=1), streak=2, run_id=7, text="limit"
        )

        assert not agents.store.write_now(lambda tx: tx.rare_gates()).has_holds
        agents.store.write_now(lambda tx: tx.hold_add(hold))
        (stored,) = agents.store.write_now(lambda tx: tx.hold_list_open())
        agents.store.write_now(lambda tx: tx.hold_move(stored.id, NOW + timedelta(hours=2), stated=True))
        moved = agents.store.write_now(lambda tx: tx.hold_get_last("team", ""))

        assert replace(stored, id=0) == hold
        assert moved == replace(stored, until=NOW + timedelta(hours=2), stated=True)
        assert agents.store.write_now(lambda tx: tx.rare_gates()).has_holds
        with closing(open_reader(agents.store.location)) as reader:
            assert reader.holds(NOW) == [moved]
            assert reader.holds(NOW + timedelta(hours=2)) == []
        assert agents.store.write_now(lambda tx: tx.hold_release("team", by="human:you", now=NOW)) == 1
        assert agents.store.write_now(lambda tx: tx.hold_release("team", by="human:you", now=NOW)) == 0
        assert not agents.store.write_now(lambda tx: tx.rare_gates()).has_holds
        last = agents.store.write_now(lambda tx: tx.hold_get_last("team", ""))
        assert last is not None
        assert (last.released_at, last.released_by) == (NOW, "human:you")

    def test_a_hold_that_ended_by_itself_is_closed(self, agents: OpenedStore) -> None:
        agents.store.write_now(lambda tx: tx.hold_add(AccountHold(account="team", began_at=NOW, until=NOW)))
        (stored,) = agents.store.write_now(lambda tx: tx.hold_list_open())

        agents.store.write_now(lambda tx: tx.hold_end_many([stored.id], NOW))

        assert agents.store.write_now(lambda tx: tx.hold_list_open()) == []
        assert agents.store.write_now(lambda tx: tx.drop_holds(NOW)) == 0
        assert agents.store.write_now(lambda tx: tx.drop_holds(NOW + timedelta(seconds=1))) == 1

    def test_a_success_since_a_hold_began_ends_its_streak(self, agents: OpenedStore) -> None:
        agents.store.write_now(lambda tx: tx.hold_add(AccountHold(account="team", began_at=NOW, until=NOW, streak=3)))

        def streak_after(account: str, started: timedelta) -> int:
            agents.store.write_now(lambda tx: tx.hold_end_streaks([(account, NOW + started)]))
            hold = agents.store.write_now(lambda tx: tx.hold_get_last("team", ""))
            assert hold is not None
            return hold.streak

        assert streak_after("team", timedelta(seconds=-1)) == 3
        assert streak_after("mine", timedelta(seconds=1)) == 3
        assert streak_after("team", timedelta(seconds=1)) == 0

    def test_when_the_clock_is_set_back_only_a_stated_end_stays(self, agents: OpenedStore) -> None:
        later, hour = NOW + timedelta(minutes=30), timedelta(hours=1)
        holds = [
            AccountHold(account=account, began_at=NOW, until=later, stated=stated)
            for account, stated in (("guessed", False), ("told", True))
        ]
        agents.store.write_now(lambda tx: tx.hold_add(holds[0]))
        agents.store.write_now(lambda tx: tx.hold_add(holds[1]))

        agents.store.write_now(lambda tx: tx.withdraw_future(NOW - hour, hour))

        guessed, told = agents.store.write_now(lambda tx: tx.hold_list_open())
        assert (guessed.began_at, guessed.until) == (NOW - hour, later - hour)
        assert (told.began_at, told.until) == (NOW - hour, later)

    def test_the_account_of_a_schedule_is_its_own_or_what_its_last_run_used(self, agents: OpenedStore) -> None:
        snapshot = agents.schedule()

        def read() -> dict[int, AccountUse]:
            return agents.store.write_now(lambda tx: tx.account_get_many([snapshot.id]))

        assert read() == {}
        agents.store.write_now(lambda tx: tx.account_set_many({snapshot.target_id: "claude-1"}))
        agents.store.write_now(lambda tx: tx.account_set_many({snapshot.target_id: "claude-2"}))
        assert read() == {snapshot.id: AccountUse("claude-2", "opus")}
        with closing(open_reader(agents.store.location)) as reader:
            assert reader.account_uses() == read()

    def test_a_released_account_wakes_what_waits_for_it(self, agents: OpenedStore) -> None:
        beat = build_beat(agents.schedule(), outcome=BeatOutcome.PENDING)._replace(
            reason="rate_limited", wake_at=NOW + timedelta(hours=5)
        )
        agents.store.write_now(lambda tx: tx.add_beats([beat]))

        agents.store.write_now(lambda tx: tx.hold_release("team", by="human:you", now=NOW))

        (woken,) = agents.store.write_now(lambda tx: tx.due_beats(NOW, 10))
        assert woken.reason == "rate_limited"

    def test_how_often_a_limit_sent_a_beat_back_is_counted_apart_from_its_attempts(self, agents: OpenedStore) -> None:
        run = _start_run(agents)
        (open_run,) = agents.store.write_now(lambda tx: tx.open_runs([run])).values()
        waiting = ChangedBeat(open_run.beat_id, BeatOutcome.PENDING, "rate_limited", NOW, 1, settled=False)

        def send_back(tx: Transaction) -> None:
            tx.change_beats([waiting], NOW)
            tx.beat_count_limited([open_run.beat_id])

        agents.store.write_now(send_back)

        (beat,) = agents.store.write_now(lambda tx: tx.due_beats(NOW, 10))
        assert (beat.attempt, beat.limited, beat.has_run) == (1, 1, True)
        assert agents.store.write_now(lambda tx: tx.open_runs([run]))[run].limited == 1
        assert agents.store.write_now(lambda tx: tx.skip_waiting(beat.schedule_id, "paused", NOW)) == 1
        with closing(open_reader(agents.store.location)) as reader:
            skipped = reader.beat(beat.id)
        assert skipped is not None
        assert (skipped.outcome, skipped.reason) == (BeatOutcome.RAN, "")

    def test_a_floor_is_kept_until_it_is_taken_back(self, agents: OpenedStore) -> None:
        schedule_id = agents.schedule().id

        agents.store.write_now(lambda tx: tx.schedule_set_not_before({schedule_id: NOW + timedelta(minutes=3)}))
        floor = agents.schedule().not_before
        agents.store.write_now(lambda tx: tx.schedule_set_not_before({schedule_id: None}))

        assert floor == NOW + timedelta(minutes=3)
        assert agents.schedule().not_before is None

    def test_a_mark_stays_until_a_person_or_a_later_success_clears_it(self, agents: OpenedStore) -> None:
        schedule_id = agents.schedule().id
        runs = [_start_run(agents, f"interval:{number}") for number in range(4)]
        marks = [AttentionMark(run, schedule_id, ("Bash: git push",)) for run in runs[:2]]
        agents.store.write_now(lambda tx: tx.attention_add_many(marks, NOW))

        def clear(run: int, started: timedelta, scope: ClearingScope = ClearingScope.EARLIER_RUNS) -> list[int]:
            success = AttentionClearing(run, schedule_id, NOW + started, scope)
            agents.store.write_now(lambda tx: tx.attention_clear_many([success], NOW + timedelta(hours=1)))
            with closing(open_reader(agents.store.location)) as reader:
                return [mark.run_id for mark in reader.open_attention(10)]

        assert agents.store.write_now(lambda tx: tx.attention_ack([runs[1]], by="human:you", now=NOW)) == 1
        assert agents.store.write_now(lambda tx: tx.attention_ack(runs, by="human:me", now=NOW)) == 1
        agents.store.write_now(
            lambda tx: tx.attention_add_many([AttentionMark(runs[2], schedule_id, ("Edit", "Bash"))], NOW)
        )
        assert clear(runs[3], timedelta(seconds=-1)) == [runs[2]]
        assert clear(runs[3], timedelta(seconds=1), ClearingScope.SAME_BEAT) == [runs[2]]
        assert clear(runs[3], timedelta(seconds=1)) == []
        with closing(open_reader(agents.store.location)) as reader:
            acked, cleared = reader.attention_of(runs[1]), reader.attention_of(runs[2])
        assert acked is not None
        assert cleared is not None
        assert (acked.acked_by, cleared.acked_by, cleared.what) == ("human:you", f"run:{runs[3]}", ("Edit", "Bash"))

    def test_a_mark_of_a_conversation_is_cleared_in_the_same_one_only(self, agents: OpenedStore) -> None:
        schedule_id = agents.schedule().id
        asked, elsewhere, same = (_start_run(agents, f"chat:slack:C1:{name}") for name in ("t1:1", "t2:2", "t1:3"))
        agents.store.write_now(lambda tx: tx.attention_add_many([AttentionMark(asked, schedule_id, ("what?",))], NOW))

        def clear(run: int) -> list[int]:
            success = AttentionClearing(run, schedule_id, NOW + timedelta(hours=1), ClearingScope.SAME_THREAD)
            agents.store.write_now(lambda tx: tx.attention_clear_many([success], NOW))
            with closing(open_reader(agents.store.location)) as reader:
                return [mark.run_id for mark in reader.open_attention(10)]

        assert [clear(elsewhere), clear(same)] == [[asked], []]

    def test_what_is_kept_of_a_run_goes_with_it(self, agents: OpenedStore) -> None:
        snapshot, run = agents.schedule(), _start_run(agents)
        agents.store.write_now(lambda tx: tx.agent_run_add_many([AgentRunRow(run, make_report())]))
        agents.store.write_now(
            lambda tx: tx.cost_add_many(
                [RunCostRow(run, snapshot.id, snapshot.target_id, "2026-03-02", RunSpend(usd=1))]
            )
        )
        agents.store.write_now(lambda tx: tx.attention_add_many([AttentionMark(run, snapshot.id, ("x",))], NOW))
        beat_id = agents.store.write_now(lambda tx: tx.open_runs([run]))[run].beat_id
        _end_run(agents, run)
        settled = ChangedBeat(beat_id, BeatOutcome.RAN, "", None, 1, settled=True)
        agents.store.write_now(lambda tx: tx.change_beats([settled], NOW))

        agents.store.write_now(lambda tx: tx.drop_beats([beat_id]))

        with closing(open_reader(agents.store.location)) as reader:
            assert (reader.agent_run(run), reader.run_spend(run), reader.attention_of(run)) == (None, None, None)

    def test_prices_are_kept_until_the_file_has_others(self, agents: OpenedStore) -> None:
        prices = {"opus": ModelPrice(input=5.0, output=25.0, cache_read=0.5)}

        agents.store.write_now(lambda tx: tx.set_prices(prices))

        assert agents.store.write_now(lambda tx: tx.prices()) == prices
        agents.store.write_now(lambda tx: tx.set_prices({}))
        assert agents.store.write_now(lambda tx: tx.prices()) == {}

    def test_a_claim_asks_at_once_for_budgets_and_holds(self, agents: OpenedStore) -> None:
        agents.store.write_now(lambda tx: tx.set_budgets({FLEET_OWNER: Budget(runs_per_day=1)}))

        assert agents.store.write_now(lambda tx: tx.rare_gates()) == (True, False)


def _start_run(agents: OpenedStore, dedup_id: str = "interval:1", node: int = 1) -> int:
    snapshot = agents.schedule()
    (beat_id,) = agents.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot, dedup_id)]))
    assert beat_id is not None
    (run,) = agents.store.write_now(lambda tx: tx.add_runs([NewRun(beat_id, snapshot.id, 1)], node, NOW))
    return run


def _end_run(agents: OpenedStore, run: int) -> None:
    ended = FinishedRun(run, NOW, Outcome(status=RunStatus.SUCCEEDED))
    agents.store.write_now(lambda tx: tx.finish_runs([ended], NOW))
