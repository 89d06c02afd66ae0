"""What a run has used and what that costs: charging by difference, prices, and where a figure comes from. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from herdbeat.domain.agent_run import (
    CountedUsage,
    ModelPrice,
    RunSpend,
    SessionTotals,
    SpendSource,
    TokenUsage,
    find_price,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a run is charged, and the totals to store for its session. None means unknown, not nothing."""

    usage: TokenUsage | None = None
    usd: float | None = None
    stored: SessionTotals = field(default_factory=SessionTotals)


def charge_run(counted: CountedUsage, last: SessionTotals | None) -> Charge:
    """Return what to charge, given the totals stored for the session by its last run.

    Only what has grown is charged: the totals of a resumed Codex thread, and of some versions of Claude, continue from
    the last run. If a counter fell, the CLI has begun anew and all of it is charged. A missing figure lowers no total.
    """
    new = counted.totals
    if last is None or last.is_empty:
        return Charge(usage=new.usage, usd=new.usd, stored=SessionTotals() if counted.is_partial else new)
    if not counted.is_cumulative or counted.is_partial or new.is_empty:
        # What a log shows of an interrupted run is no total of its session.
        stored = last if counted.is_partial or new.is_empty else _merge(new, last)
        return Charge(usage=new.usage, usd=new.usd, stored=stored)
    if not _continues(new, last, counted.own_usage):
        return Charge(usage=new.usage, usd=new.usd, stored=_merge(new, last))
    return Charge(
        usage=new.usage.minus(last.usage or TokenUsage()) if new.usage else None,
        usd=None if new.usd is None else round(max(0.0, new.usd - (last.usd or 0.0)), 9),
        stored=_merge(new, last),
    )


def _continues(new: SessionTotals, last: SessionTotals, own: TokenUsage | None) -> bool:
    """Return whether the totals include those of the last run.

    That no counter fell does not prove it: a second run may simply have used more than the first. Where the CLI reports
    what this process used, the rest has to cover the last totals.
    """
    if new.usd is not None and last.usd is not None and new.usd < last.usd - 1e-9:
        return False
    if new.usage is None or last.usage is None:
        return True
    if own is not None and own != TokenUsage():
        return _covers(new.usage.minus(own), last.usage)
    return _covers(new.usage, last.usage)


def _covers(usage: TokenUsage, other: TokenUsage) -> bool:
    rest = usage.minus(other)
    return min(rest.input_tokens, rest.cache_read_tokens, rest.cache_write_tokens, rest.output_tokens) >= 0


def _merge(new: SessionTotals, last: SessionTotals) -> SessionTotals:
    return SessionTotals(
        usage=last.usage if new.usage is None else new.usage, usd=last.usd if new.usd is None else new.usd
    )


PriceEstimate = Callable[[str, TokenUsage], float | None]
"""The dollars of these tokens by a package of prices; None for a model that it does not know."""


def price_charge(
    charge: Charge,
    model: str,
    prices: Mapping[str, ModelPrice],
    estimate: PriceEstimate | None = None,
    *,
    is_subscription: bool = False,
) -> RunSpend:
    """Return the cost of a charge: as reported, else by the user's prices, else by the package, else unknown."""
    spend = RunSpend(usage=charge.usage, is_notional=is_subscription)
    if charge.usd is not None:
        return replace(spend, usd=charge.usd, source=SpendSource.REPORTED)
    if charge.usage is None:
        return spend
    price = find_price(prices, model)
    if price is not None:
        return replace(spend, usd=price_tokens(price, charge.usage), source=SpendSource.TABLE)
    estimated = estimate(model, charge.usage) if estimate is not None and model else None
    return spend if estimated is None else replace(spend, usd=estimated, source=SpendSource.ESTIMATED)


def price_tokens(price: ModelPrice, usage: TokenUsage) -> float:
    """Return the dollars of these tokens. Cached ones have the price of input, unless they have their own."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    dollars = (
        max(0, usage.input_tokens - cached) * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.output_tokens * price.output
    )
    return round(dollars / 1_000_000, 9)
