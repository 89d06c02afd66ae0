"""`prices`, and budgets in dollars over costs that nobody knows."""

import sys

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.domain.agent_run import ModelPrice
from herdbeat.error_codes import Code
from herdbeat.runners.agents.price_package import PACKAGE

AGENT = "agents: [{{ name: a, runtime: {runtime}, model: {model}, every: 1h, budget: {{ {budget} }} }}]\n"
PRICES = "prices: { gpt-5: { input: 1.25, output: 10, cache_read: 0.125 } }\n"


@pytest.fixture(autouse=True)
def _no_price_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)


def is_warned(folder: ConfigFolder, text: str) -> bool:
    return any(problem.code is Code.UNKNOWN_COST for problem in folder.read(text).problems)


@pytest.mark.parametrize(
    ("runtime", "model", "budget", "warns"),
    [
        ("codex", "o9", "usd_per_day: 5", True),
        ("codex", "gpt-5-codex", "usd_per_day: 5", False),
        ("codex", "o9", "usd_per_day: 5, tokens_per_day: 1000", False),
        ("codex", "o9", "runs_per_day: 5", False),
        ("claude", "opus", "usd_per_day: 5", False),
        ("cursor", "gpt-5", "usd_per_day: 5", True),
        ("cursor", "gpt-5", "tokens_per_day: 1000", True),
        ("copilot", "gpt-5", "usd_per_day: 5, tokens_per_day: 1000", True),
        ("goose", "gpt-5", "runs_per_day: 5", False),
    ],
)
def test_a_budget_over_an_unknown_cost_is_a_warning(
    folder: ConfigFolder, runtime: str, model: str, budget: str, warns: bool
) -> None:
    text = PRICES + AGENT.format(runtime=runtime, model=model, budget=budget)

    assert is_warned(folder, text) is warns


def test_prices_are_read_per_million_tokens(folder: ConfigFolder) -> None:
    fleet = folder.fleet(PRICES + AGENT.format(runtime="codex", model="gpt-5", budget="usd_per_day: 5"))

    assert fleet.prices == {"gpt-5": ModelPrice(input=1.25, output=10.0, cache_read=0.125)}


PLANNER = "planner: {{ {planner}, usd_per_day: 1 }}\ncommands: [{{ name: a, command: [a], every: 1h, group: shop }}]\n"


@pytest.mark.parametrize(
    ("planner", "warns"),
    [
        ("model: o9", True),
        ("model: gpt-5-mini", False),
        ("model: o9, tokens_per_day: 1000", False),
        ("runtime: claude", False),
        ("runtime: codex", True),
        ("runtime: codex, tokens_per_day: 1000", False),
        ("runtime: cursor, tokens_per_day: 1000", True),
    ],
)
def test_a_planners_budget_over_an_unknown_cost_is_a_warning(folder: ConfigFolder, planner: str, warns: bool) -> None:
    assert is_warned(folder, PRICES + PLANNER.format(planner=planner)) is warns
