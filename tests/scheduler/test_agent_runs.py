"""What the completion of an agent's run writes: its cost, its session, its answer, and marks for people."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

from tests.support.agent_reports import count_usage, reach_limit, succeed

from herdbeat.domain.agent_records import AgentRunRecord, AttentionRecord, CostRecord, SessionRecord
from herdbeat.domain.agent_run import CountedUsage, ModelPrice, RunSpend, SessionTotals, SpendSource, TokenUsage
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.scheduler.agent_runs import to_usage
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.store.base import FinishedRun
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Manual

HOUR = timedelta(hours=1)
AGENT = AgentSpec(runtime="codex", working_directory=".", model="gpt-5")


def read_costs(herd: SimulatedHerd) -> list[CostRecord]:
    with closing(SqliteReader(herd.store.path)) as reader:
        return reader.costs("2026-01-01")


def read_spends(herd: SimulatedHerd) -> list[RunSpend | None]:
    """What each run was charged, oldest first."""
    with closing(SqliteReader(herd.store.path)) as reader:
        return [reader.run_spend(run.id) for run in reader.runs(Filter(limit=50))][::-1]


def read_agent_runs(herd: SimulatedHerd) -> list[AgentRunRecord | None]:
    with closing(SqliteReader(herd.store.path)) as reader:
        return [reader.agent_run(run.id) for run in reader.runs(Filter(limit=50))][::-1]


def read_attention(herd: SimulatedHerd) -> list[AttentionRecord]:
    with closing(SqliteReader(herd.store.path)) as reader:
        return reader.open_attention(50)


def read_sessions(herd: SimulatedHerd) -> list[SessionRecord]:
    with closing(SqliteReader(herd.store.path)) as reader:
        return reader.sessions(None, None, 50)


async def run_hourly(herd: SimulatedHerd, *outcomes: Outcome, budget: Budget | None = None) -> ScriptedRunner:
    """Run an agent every hour until its outcomes are used up, and once more if it may."""
    runner = ScriptedRunner(outcomes=list(outcomes))
    herd.schedule("scout", every="1h", runner=runner, agent=AGENT, budget=budget)
    await herd.advance(len(outcomes) * HOUR)
    return runner


async def test_a_resumed_session_is_charged_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        totals = [count_usage(1_000, 100, 0.5, cumulative=True), count_usage(1_500, 150, 0.7, cumulative=True)]

        await run_hourly(herd, *(succeed(counted=each, runtime="codex") for each in totals))

        first, second = read_spends(herd)[:2]
        assert first == RunSpend(
            usd=0.5, source=SpendSource.REPORTED, usage=TokenUsage(input_tokens=1_000, output_tokens=100)
        )
        assert second == RunSpend(
            usd=0.2, source=SpendSource.REPORTED, usage=TokenUsage(input_tokens=500, output_tokens=50)
        )
        (session,) = read_sessions(herd)
        assert (session.runs, session.usd, session.runtime, session.host) == (2, 0.7, "codex", "herd")


async def test_a_run_that_was_cut_short_is_charged_what_it_has_shown(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        seen = CountedUsage(totals=SessionTotals(usage=TokenUsage(input_tokens=70, output_tokens=5)), is_partial=True)
        report = succeed(counted=seen, ok=False, runtime="codex").agent

        await run_hourly(herd, Outcome(status=RunStatus.TIMED_OUT, agent=report))

        assert read_spends(herd)[0] == RunSpend(usage=TokenUsage(input_tokens=70, output_tokens=5))


async def test_tokens_without_dollars_cost_what_the_user_says(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        outcome = succeed(counted=count_usage(1_000_000, 100_000), model="gpt-5-codex")
        herd.schedule("scout", every="1h", runner=ScriptedRunner(outcomes=[outcome, outcome]), agent=AGENT)
        await herd.tick()  # applies the fleet, which has no prices, and runs it once
        herd.store.write_now(lambda tx: tx.set_prices({"gpt-5": ModelPrice(input=1.0, output=10.0)}))

        await herd.advance(HOUR)

        spend = read_spends(herd)[1]
        assert spend is not None
        assert (spend.usd, spend.source) == (2.0, SpendSource.TABLE)


async def test_tokens_without_a_price_have_an_unknown_cost(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        await run_hourly(herd, succeed(counted=count_usage(1_000, 50), is_subscription=True))

        (line,) = [line for line in read_costs(herd) if line.usage is not None]
        assert (line.usd, line.source, line.is_notional, line.schedule) == (None, SpendSource.UNKNOWN, True, "scout")


async def test_a_price_package_is_asked_for_what_the_user_has_no_price_for(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("scout", every="1h", runner=runner, agent=AGENT)
        await herd.tick()
        done = FinishedRun(runner.runs[0].run_id, herd.now, succeed(counted=count_usage(1_000), model="gpt-5"))

        herd.store.write_now(lambda tx: complete_runs(tx, herd.now, [done], lambda model, _: 0.25 * len(model)))

        spend = read_spends(herd)[0]
        assert spend is not None
        assert (spend.usd, spend.source) == (1.25, SpendSource.ESTIMATED)


async def test_a_dollar_budget_stops_the_next_start_and_not_the_one_after(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        costs = [succeed(counted=count_usage(usd=usd), session_id="") for usd in (0.4, 0.7, 0.1)]

        runner = await run_hourly(herd, *costs, budget=Budget(usd_per_day=1.0))

        assert len(runner.runs) == 2
        assert herd.outcomes("scout")[-1][:2] == ("skipped", "budget_exceeded")


async def test_a_token_budget_counts_what_an_agent_used_and_cached_input_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        usage = TokenUsage(input_tokens=900, cache_read_tokens=800, output_tokens=100)
        used = succeed(counted=CountedUsage(totals=SessionTotals(usage=usage)), session_id="")

        runner = await run_hourly(herd, used, used, used, budget=Budget(tokens_per_day=2_000))

        assert len(runner.runs) == 2


async def test_an_unknown_cost_leaves_the_estimate_in_a_dollar_budget(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        known, unknown = count_usage(usd=0.4), count_usage(1_000)
        outcomes = [succeed(counted=each, session_id="") for each in (known, known, unknown, known)]

        runner = await run_hourly(herd, *outcomes, budget=Budget(usd_per_day=1.25))

        assert len(runner.runs) == 3  # the third has no price, and is counted like the others


async def test_a_refused_run_gives_its_reservation_back(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        refused = reach_limit(counted=CountedUsage())

        runner = await run_hourly(herd, refused, succeed(), budget=Budget(runs_per_day=1))

        assert len(runner.runs) == 2


async def test_a_refused_run_that_reports_zeros_is_not_a_run_of_no_dollars(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        zeros = CountedUsage(totals=SessionTotals(usage=TokenUsage(), usd=0.0))

        outcomes = (reach_limit(counted=zeros), succeed(counted=count_usage(usd=0.5)))
        await run_hourly(herd, *outcomes, budget=Budget(runs_per_day=1))

        (line,) = read_costs(herd)
        assert (line.runs, line.usd) == (1, 0.5)
        with closing(SqliteReader(herd.store.path)) as reader:
            first, *_ = reader.runs(Filter(limit=50))[::-1]
            assert reader.last_usage(1, 20) == [{"usd": 0.5}]  # what the estimate of the next start is made of
        assert first.status is RunStatus.FAILED


async def test_the_answer_the_prompt_and_the_reason_of_a_failure_are_kept(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        await run_hourly(
            herd,
            succeed(answer="All green.", prompt="Look", quiet=True),
            reach_limit(tool_called=True, runtime="codex"),
        )

        first, second = read_agent_runs(herd)[:2]
        assert first is not None
        assert second is not None
        assert (first.answer, first.prompt, first.quiet, first.error_code) == ("All green.", "Look", True, "")
        assert (second.answer, second.error_code, second.account) == ("", "rate_limited", "team")


async def test_a_run_of_something_else_writes_nothing_of_this(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("job", every="1h", runner=ScriptedRunner(usage={"usd": 0.5}))

        await herd.tick()

        assert (read_agent_runs(herd), read_spends(herd), read_sessions(herd)) == ([None], [None], [])


async def test_a_mark_stays_until_a_later_run_needs_nobody(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        asks, fails = (
            succeed(needs_you=("Bash: git push",)),
            Outcome(status=RunStatus.FAILED, agent=succeed(ok=False).agent),
        )
        runner = ScriptedRunner(outcomes=[asks, fails, succeed()])
        herd.schedule("scout", every="1h", runner=runner, agent=AGENT)

        await herd.advance(HOUR)
        after_a_failure = read_attention(herd)
        await herd.advance(3 * HOUR)

        assert [(mark.schedule, mark.what) for mark in after_a_failure] == [("scout", ("Bash: git push",))]
        assert read_attention(herd) == []


async def test_a_later_success_by_hand_clears_the_mark_of_a_clock_beat(tmp_path: Path) -> None:
    """Who has allowed the tool runs it once more, and sees that it is well."""
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[succeed(needs_you=("what?",)), succeed()], takes=HOUR)
        herd.schedule("scout", every="12h", runner=runner, agent=AGENT)
        await herd.tick()
        marks, schedule_id = read_attention(herd), herd.snapshot("scout").id

        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, schedule_id, origin="human:you", event_id="x"))
        await herd.tick()

        assert len(runner.runs) == 2
        assert (len(marks), read_attention(herd)) == (1, [])


async def test_a_success_of_one_event_clears_no_mark_of_another(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[succeed(needs_you=("what?",)), succeed()], takes=HOUR)
        herd.schedule("scout", trigger=Manual(), runner=runner, agent=AGENT)
        schedule_id = herd.snapshot("scout").id

        for event in ("x", "y"):
            herd.store.write_now(
                lambda tx, event=event: enqueue_manual(tx, herd.now, schedule_id, origin="human:you", event_id=event)  # type: ignore[misc]
            )
            await herd.advance(2 * HOUR)

        assert len(runner.runs) == 2
        assert [mark.what for mark in read_attention(herd)] == [("what?",)]


def test_what_is_unknown_is_left_out_of_the_usage() -> None:
    usage = TokenUsage(input_tokens=10, cache_read_tokens=4, output_tokens=2)

    assert to_usage(RunSpend()) == {}
    assert to_usage(RunSpend(usage=usage)) == {
        "tokens": 12,
        "input_tokens": 10,
        "cache_read_tokens": 4,
        "cache_write_tokens": 0,
        "output_tokens": 2,
    }
    assert to_usage(RunSpend(usd=0.0)) == {"usd": 0.0}
