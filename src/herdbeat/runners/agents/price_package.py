"""Prices of models from the package genai-prices, if it is installed. It asks no network."""

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from herdbeat.domain.agent_run import TokenUsage

log = logging.getLogger(__name__)

PACKAGE = "genai_prices"


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def estimate_price(model: str, usage: TokenUsage) -> float | None:
    """Return the dollars of these tokens; None for a model that the package does not know, or without the package.

    The package matches names loosely: the price of "gpt-5.2-codex" is that of "gpt-5.2". So it is an estimate.
    """
    prices = _load()
    if prices is None:
        return None
    tokens = prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return round(float(prices.calc_price(tokens, model_ref=model).total_price), 9)
    except LookupError:
        return None
    except (ValueError, TypeError, ArithmeticError) as error:
        log.warning("price not estimated model=%s error=%s", model, error)
        return None


def _load() -> Any:
    """Import the package on its first use: that takes a fifth of a second, and few fleets need it."""
    if not is_installed():
        return None
    return import_module(PACKAGE)
