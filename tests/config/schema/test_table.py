"""One declaration per key: default, reference words, domain field and Python option must agree."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import product
from typing import Literal, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.build_policies import build_default_policies
from herdbeat.config.provenance import build_value
from herdbeat.config.schema.formats import DURATION, TEXTS
from herdbeat.config.schema.policies import POLICIES
from herdbeat.config.schema.table import Field, SpecialDefault, optional_field
from herdbeat.config.schema.types import EnumValue, Integer
from herdbeat.domain.policies import AUTOMATIC_SPREAD, Policies
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import HerdbeatError
from herdbeat.python_api.options import ScheduleOptions

UTC_ZONE = ZoneInfo("UTC")


@dataclass(frozen=True)
class Part:
    least: int | None = None
    most: int = 7


@dataclass(frozen=True)
class Whole:
    name: str = "unnamed"
    part: Part | None = None


def test_a_default_is_parsed_by_its_own_type() -> None:
    assert Field("grace", DURATION, "", "30s").default_value() == timedelta(seconds=30)
    assert Field("labels", TEXTS, "", "blocked, wip").default_value() == ("blocked", "wip")
    assert optional_field("max_late", DURATION, "").default_value() is None


def test_a_default_that_its_type_rejects_cannot_be_declared() -> None:
    with pytest.raises(HerdbeatError):
        Field("grace", DURATION, "", "soon")


def test_some_kinds_have_another_default() -> None:
    special = SpecialDefault("endpoints", frozenset({TargetKind.ENDPOINT}), "30s")
    key = Field("timeout", DURATION, "", "1h", special_default=special)

    assert key.default_value((TriggerKind.CRON, TargetKind.COMMAND)) == timedelta(hours=1)
    assert key.default_value((TriggerKind.CRON, TargetKind.ENDPOINT)) == timedelta(seconds=30)
    assert key.default_text == "1h; endpoints: 30s"


def test_only_the_intervals_of_agents_are_spread_by_default() -> None:
    spread = {
        (trigger, target)
        for trigger, target in product(TriggerKind, TargetKind)
        if build_default_policies(UTC_ZONE, trigger, target).jitter is not None
    }

    assert spread == {(TriggerKind.INTERVAL, TargetKind.AGENT)}
    assert build_default_policies(UTC_ZONE, TriggerKind.INTERVAL, TargetKind.AGENT).jitter == AUTOMATIC_SPREAD


def test_a_dotted_field_belongs_to_the_dataclass_of_its_field() -> None:
    assert build_value(Whole, {"name": "a", "part.least": 0}) == Whole(name="a", part=Part(least=0))


def test_a_field_without_a_value_keeps_the_default_of_its_dataclass() -> None:
    assert build_value(Whole, {"name": None, "part.least": None, "part.most": None}) == Whole()


@pytest.mark.parametrize(("trigger", "target"), list(product(TriggerKind, TargetKind)))
def test_declared_defaults_are_those_of_the_domain(trigger: TriggerKind, target: TargetKind) -> None:
    """The codec leaves out what a field has by default, so both must say the same."""
    policies = build_default_policies(UTC_ZONE, trigger, target)

    by_kind = {name: getattr(policies, name) for name in ("timeout", "catchup", "overlap", "jitter")}
    assert policies == Policies(zone=UTC_ZONE, **by_kind)


@pytest.mark.parametrize("key", POLICIES, ids=lambda key: key.name)
def test_a_python_option_has_the_type_of_its_key(key: Field[object]) -> None:
    option = get_type_hints(ScheduleOptions)[key.name]

    if isinstance(key.field_type, EnumValue):
        enum: type[StrEnum] = key.field_type.enum
        assert get_origin(option) is Literal
        assert get_args(option) == tuple(enum)
    else:
        assert (option is int) == isinstance(key.field_type, Integer)
        assert (timedelta in get_args(option)) == (key.field_type is DURATION or key.name == "jitter")
