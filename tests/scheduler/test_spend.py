"""Charging by difference, so that a resumed session is paid once; prices, and where a figure comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.agent_run import (
    CountedUsage,
    ModelPrice,
    RunSpend,
    SessionTotals,
    SpendSource,
    TokenUsage,
    find_price,
)
from herdbeat.scheduler.spend import Charge, charge_run, price_charge, price_tokens


def tokens(given: int, output: int = 0, *, read: int = 0, written: int = 0) -> TokenUsage:
    return TokenUsage(input_tokens=given, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)


def totals(given: int, output: int = 0, usd: float | None = None) -> SessionTotals:
    return SessionTotals(usage=tokens(given, output), usd=usd)


def count(new: SessionTotals, own: TokenUsage | None = None, *, is_partial: bool = False) -> CountedUsage:
    return CountedUsage(totals=new, own_usage=own, is_cumulative=True, is_partial=is_partial)


def test_a_resumed_codex_thread_is_charged_for_what_it_added() -> None:
    """Measured totals of one thread: 16504, 85681, 103779."""
    charged, last = [], None
    for total in (16_504, 85_681, 103_779):
        charge = charge_run(count(totals(total)), last)
        charged.append(charge.usage.input_tokens if charge.usage else None)
        last = charge.stored

    assert charged == [16_504, 69_177, 18_098]
    assert sum(each or 0 for each in charged) == 103_779


def test_totals_that_begin_anew_are_charged_in_full() -> None:
    charge = charge_run(count(totals(10, 5, usd=0.1)), totals(100, 50, usd=1.0))

    assert charge == Charge(usage=tokens(10, 5), usd=0.1, stored=totals(10, 5, usd=0.1))


def test_a_second_run_that_used_more_than_the_first_is_not_mistaken_for_a_total() -> None:
    """Claude Code up to 2.1.276 starts again at zero: everything was used by this process."""
    charge = charge_run(count(totals(500, 50, usd=0.5), own=tokens(500, 50)), totals(100, 10, usd=0.1))

    assert (charge.usage, charge.usd) == (tokens(500, 50), 0.5)


def test_a_total_that_covers_the_last_one_beside_its_own_part_is_charged_by_difference() -> None:
    charge = charge_run(count(totals(600, 60, usd=0.6), own=tokens(500, 50)), totals(100, 10, usd=0.1))

    assert (charge.usage, charge.usd) == (tokens(500, 50), 0.5)


def test_zeros_after_a_crash_charge_nothing_and_lower_no_total() -> None:
    last = totals(100, 10, usd=1.0)

    crashed = charge_run(count(totals(0, 0, usd=0.0)), last)
    after = charge_run(count(totals(150, 15, usd=1.5)), crashed.stored)

    assert crashed.stored == last
    assert (after.usage, after.usd) == (tokens(50, 5), 0.5)


def test_a_missing_figure_lowers_no_total() -> None:
    charge = charge_run(count(SessionTotals(usage=tokens(150))), totals(100, usd=1.0))

    assert charge.usd is None
    assert charge.stored == SessionTotals(usage=tokens(150), usd=1.0)


def test_an_interrupted_run_is_charged_what_its_log_shows_and_its_session_keeps_its_total() -> None:
    last = totals(1_000, 100, usd=1.0)

    charge = charge_run(count(totals(25, 1), own=tokens(25, 1), is_partial=True), last)

    assert charge == Charge(usage=tokens(25, 1), usd=None, stored=last)
    assert charge_run(count(totals(25, 1), is_partial=True), None).stored == SessionTotals()


def test_figures_of_one_run_are_charged_as_they_are() -> None:
    counted = CountedUsage(totals=totals(500, usd=0.5), is_cumulative=False)

    assert charge_run(counted, totals(100, usd=0.1)).usage == tokens(500)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=1, max_size=8))
def test_a_growing_session_is_charged_exactly_once(steps: list[tuple[int, int]]) -> None:
    running, charged, last = TokenUsage(), TokenUsage(), None
    for given_tokens, output in steps:
        running = running.plus(tokens(given_tokens, output))
        charge = charge_run(count(SessionTotals(usage=running)), last)
        assert charge.usage is not None
        charged, last = charged.plus(charge.usage), charge.stored

    assert charged == running


@given(
    new=st.tuples(st.integers(0, 100), st.integers(0, 100), st.none() | st.floats(0, 10)),
    last=st.tuples(st.integers(0, 100), st.integers(0, 100), st.none() | st.floats(0, 10)),
    own=st.none() | st.tuples(st.integers(0, 100), st.integers(0, 100)),
    is_partial=st.booleans(),
)
def test_no_charge_is_negative_or_more_than_the_total(
    new: tuple[int, int, float | None],
    last: tuple[int, int, float | None],
    own: tuple[int, int] | None,
    is_partial: bool,
) -> None:
    counted = count(totals(*new), tokens(*own) if own else None, is_partial=is_partial)

    charge = charge_run(counted, totals(*last))

    assert charge.usage is not None
    assert 0 <= charge.usage.input_tokens <= new[0]
    assert 0 <= charge.usage.output_tokens <= new[1]
    assert charge.usd is None or 0 <= charge.usd <= (new[2] or 0) + 1e-9


OPUS = ModelPrice(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25)


def test_cached_input_has_its_own_price() -> None:
    usage = tokens(1_000_000, 100_000, read=600_000, written=200_000)

    assert price_tokens(OPUS, usage) == pytest.approx(0.2 * 5 + 0.6 * 0.5 + 0.2 * 6.25 + 0.1 * 25)
    assert price_tokens(ModelPrice(input=1.0, output=2.0), usage) == pytest.approx(1.2)


def test_a_price_is_found_by_name_or_by_the_longest_beginning() -> None:
    prices = {"claude-opus-4-8": OPUS, "claude": ModelPrice(input=1, output=1), "local": ModelPrice(input=0, output=0)}

    assert find_price(prices, "claude-opus-4-8[1m]") is OPUS
    assert find_price(prices, "claude-sonnet-5") is prices["claude"]
    assert find_price(prices, "gpt-6") is None
    assert find_price(prices, "") is None


@pytest.mark.parametrize(
    ("charge", "model", "usd", "source"),
    [
        (Charge(usage=tokens(1_000_000), usd=0.5), "claude-opus-4-8", 0.5, SpendSource.REPORTED),
        (Charge(usage=tokens(1_000_000)), "claude-opus-4-8", 5.0, SpendSource.TABLE),
        (Charge(usage=tokens(1_000_000)), "gpt-6", 2.0, SpendSource.ESTIMATED),
        (Charge(usage=tokens(1_000_000)), "unheard-of", None, SpendSource.UNKNOWN),
        (Charge(usage=tokens(1_000_000)), "", None, SpendSource.UNKNOWN),
        (Charge(), "claude-opus-4-8", None, SpendSource.UNKNOWN),
        (Charge(usage=tokens(1_000_000), usd=0.0), "claude-opus-4-8", 0.0, SpendSource.REPORTED),
    ],
)
def test_a_cost_has_the_best_source_there_is(
    charge: Charge, model: str, usd: float | None, source: SpendSource
) -> None:
    def estimate(model: str, usage: TokenUsage) -> float | None:
        return 2.0 if model == "gpt-6" else None

    spend = price_charge(charge, model, {"claude-opus-4-8": OPUS}, estimate)

    assert spend == RunSpend(usd=usd, source=source, usage=charge.usage)


def test_the_figure_of_a_subscription_is_notional() -> None:
    assert price_charge(Charge(usd=0.5), "opus", {}, is_subscription=True).is_notional
