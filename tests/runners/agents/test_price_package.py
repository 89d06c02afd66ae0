"""Prices of the optional package: asked only if it is there, and never trusted to be right."""

import sys
from decimal import Decimal
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from herdbeat.domain.agent_run import TokenUsage
from herdbeat.runners.agents.price_package import PACKAGE, estimate_price, is_installed

USAGE = TokenUsage(input_tokens=1_000, cache_read_tokens=300, output_tokens=50)


def calc_price(usage: SimpleNamespace, *, model_ref: str) -> SimpleNamespace:
    """As the package does: a LookupError for a model that it does not know."""
    if model_ref == "unheard-of":
        raise LookupError(model_ref)
    if model_ref == "broken":
        raise ValueError("no such tier")
    return SimpleNamespace(total_price=Decimal(usage.input_tokens + usage.output_tokens) / 1_000_000)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(PACKAGE)
    module.__spec__ = ModuleSpec(PACKAGE, None)
    module.__dict__.update(Usage=SimpleNamespace, calc_price=calc_price)
    monkeypatch.setitem(sys.modules, PACKAGE, module)


@pytest.mark.usefixtures("package")
def test_the_package_prices_the_tokens_of_a_model() -> None:
    assert is_installed()
    assert estimate_price("gpt-5", USAGE) == 0.00105


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("model", ["unheard-of", "broken"])
def test_a_model_that_the_package_cannot_price_has_no_price(model: str) -> None:
    assert estimate_price(model, USAGE) is None


def test_without_the_package_nothing_has_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)

    assert estimate_price("gpt-5", USAGE) is None
