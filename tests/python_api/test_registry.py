"""What the decorators collect, and what they reject."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints
from zoneinfo import ZoneInfo

import pytest

from herdbeat import ConfigError, Herd, RunContext
from herdbeat.config.schema.policies import POLICIES
from herdbeat.domain.policies import Overlap, Retry
from herdbeat.domain.target import CallableSpec
from herdbeat.errors import NotFound
from herdbeat.python_api.options import ScheduleOptions
from herdbeat.python_api.registry import ScheduleRegistry
from herdbeat.triggers import FixedRate


def roster(**defaults: Any) -> ScheduleRegistry:
    return ScheduleRegistry("herd", ZoneInfo("UTC"), defaults or None)  # type: ignore[arg-type]


def poll() -> None:
    """A function to schedule."""


def yields() -> Iterator[int]:
    yield 1


def test_a_function_is_scheduled_under_its_own_name() -> None:
    herd = roster()

    found = herd.every("5m")(poll)

    (schedule,) = herd.fleet("").schedules
    assert found is poll
    assert (schedule.label, schedule.trigger.describe()) == ("poll", "every 5m")
    assert herd.fleet("").targets[0].spec == CallableSpec(call=f"{__name__}:poll")


def test_functions_can_have_cron_one_shot_and_manual_triggers() -> None:
    herd = roster()

    herd.cron("0 9 * * 1-5", timezone="Europe/Berlin", name="report")(poll)
    herd.at(datetime(2026, 12, 1, 8, tzinfo=UTC), name="launch")(lambda: None)
    herd.by_hand(name="tidy")(lambda: None)

    kinds = [(each.label, each.trigger.kind, each.policies.zone.key) for each in herd.fleet("").schedules]
    assert kinds == [("report", "cron", "Europe/Berlin"), ("launch", "delay", "UTC"), ("tidy", "manual", "UTC")]


def test_policies_have_the_names_of_the_files_and_python_values() -> None:
    herd = roster()

    herd.every(
        timedelta(minutes=5),
        overlap="queue",
        timeout=timedelta(seconds=90),
        retry={"attempts": 3, "wait": "10s"},
        max_concurrent=4,
    )(poll)

    fleet = herd.fleet("")
    policies = fleet.schedules[0].policies
    assert (policies.overlap, policies.timeout) == (Overlap.QUEUE, timedelta(seconds=90))
    assert policies.retry == Retry(attempts=3, wait=timedelta(seconds=10))
    assert fleet.targets[0].max_concurrent == 4


def test_the_options_have_every_policy_of_the_files() -> None:
    own = {"name", "args", "kwargs", "description", "max_concurrent", "prompt", "enabled"}

    assert set(get_type_hints(ScheduleOptions)) - own == {key.name for key in POLICIES}


def test_defaults_apply_to_all_functions_and_an_option_to_its_own() -> None:
    herd = roster(timeout="20m")

    herd.every("5m", name="a")(lambda: None)
    herd.every("5m", name="b", timeout="1m")(lambda: None)

    assert [each.policies.timeout.total_seconds() for each in herd.fleet("").schedules] == [1200, 60]


@pytest.mark.parametrize(
    ("add", "message", "hint"),
    [
        (lambda herd: herd.every("5x")(poll), 'poll.every: "5x": "x" is not a time unit.', "Valid units"),
        (lambda herd: herd.every("5m", overlap="mabe")(poll), 'poll.overlap: overlap cannot be "mabe".', "one of skip"),
        (lambda herd: herd.every("5m", time_out="5m")(poll), 'did you mean "timeout"?', "timeout"),
        (lambda herd: herd.cron("0 25 * * *")(poll), "poll.cron: ", "0-23"),
        (lambda herd: herd.every("5m", starts_at=datetime(2026, 1, 1))(poll), "poll.starts_at", "offset"),
        (lambda herd: herd.every("5m")(lambda: None), "A lambda has no name.", 'name="poll"'),
        (lambda herd: herd.every("5m", name="a b")(poll), "a b.name", ""),
        (
            lambda herd: herd.every("5m", name="two")(lambda a, b: None),
            "requires 2 arguments",
            "only one can be passed: the run",
        ),
        (lambda herd: herd.every("5m")(yields), "is a generator function", "return instead"),
        (lambda herd: herd.every(poll), "@herd.every was called without a schedule.", "@herd.every(…)"),
        (lambda herd: herd.cron(poll), "@herd.cron was called without a schedule.", "@herd.cron(…)"),
        (lambda herd: herd.at(poll), "@herd.at was called without a schedule.", "@herd.at(…)"),
    ],
)
def test_an_error_names_the_location_of_the_decorator(
    add: Callable[[ScheduleRegistry], object], message: str, hint: str
) -> None:
    herd = roster()

    with pytest.raises(ConfigError) as caught:
        add(herd)

    text = "\n".join([str(caught.value), *caught.value.__notes__])
    assert message in text
    assert hint in text
    assert caught.value.where is not None
    assert caught.value.where.file.endswith("test_registry.py")
    assert (herd.labels, herd.functions) == ([], {})


def test_an_object_that_is_not_callable_is_rejected() -> None:
    herd = roster()

    with pytest.raises(ConfigError, match="is a int, not a function"):
        herd.every("5m", name="two")(2)  # type: ignore[type-var]

    assert (herd.labels, herd.functions) == ([], {})


def test_an_option_that_no_file_can_contain_is_rejected() -> None:
    with pytest.raises(Exception, match=r"poll\.tags is a object"):
        roster().every("5m", tags=object())(poll)  # type: ignore[arg-type]


def test_the_same_function_twice_needs_a_second_name() -> None:
    herd = roster()
    herd.every("5m")(poll)

    with pytest.raises(ConfigError, match="already scheduled, every 5m") as caught:
        herd.cron("0 9 * * *")(poll)
    herd.cron("0 9 * * *", name="poll/morning")(poll)

    assert 'name="poll/second"' in caught.value.hint
    assert herd.labels == ["poll", "poll/morning"]
    assert len(herd.fleet("").targets) == 1


def test_a_name_that_another_function_has_is_refused() -> None:
    herd = roster()
    herd.every("5m")(poll)

    with pytest.raises(ConfigError, match='"poll" is already used for'):
        herd.every("5m", name="poll")(lambda: None)


def test_a_reloaded_module_replaces_its_functions() -> None:
    herd = roster()

    for interval in ("5m", "10m"):
        names: dict[str, Any] = {"herd": herd, "__name__": "jobs"}
        exec(f"@herd.every({interval!r})\ndef tidy(): return {interval!r}", names)

    assert [each.trigger.describe() for each in herd.fleet("").schedules] == ["every 10m"]
    assert herd.functions["jobs:tidy"].call() == "10m"


def test_closures_of_one_scope_are_distinct() -> None:
    herd = roster()

    for city in ("berlin", "paris"):
        herd.every("1h", name=city)(lambda city=city: city)

    calls = [each.spec.call for each in herd.fleet("").targets if isinstance(each.spec, CallableSpec)]
    assert [herd.functions[call].call() for call in calls] == ["berlin", "paris"]


def test_a_bound_method_can_be_scheduled() -> None:
    class Shop:
        name = "corner"

        def close(self) -> str:
            return self.name

    herd, shop = roster(), Shop()

    herd.cron("0 18 * * *")(shop.close)

    (function,) = herd.functions.values()
    assert function.call() == "corner"
    assert herd.labels == ["close"]


def test_a_removed_schedule_takes_its_function_with_it() -> None:
    herd = roster()
    herd.every("5m")(poll)

    herd.remove("poll")

    assert (herd.labels, herd.functions, herd.fleet("").targets) == ([], {}, ())


def test_an_unknown_schedule_cannot_be_removed() -> None:
    herd = roster()
    herd.every("5m")(poll)

    with pytest.raises(NotFound, match='no schedule "pol"') as caught:
        herd.remove("pol")

    assert caught.value.hint == "It has poll."
    assert herd.labels == ["poll"]


async def test_each_schedule_of_a_function_passes_its_own_arguments(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    calls: list[tuple[str, int, bool]] = []

    def fetch(region: str, run: RunContext | None = None, *, depth: int = 1) -> None:
        calls.append((region, depth, run is not None))

    herd.by_hand(name="fetch/eu", args=("eu",))(fetch)
    herd.by_hand(name="fetch/us", args=["us"], kwargs={"depth": 3})(fetch)

    async with herd:
        for name in ("fetch/eu", "fetch/us"):
            assert (await herd.trigger(name, wait=True)).success

    assert calls == [("eu", 1, True), ("us", 3, True)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"args": (1, 2, 3)}, "does not accept these arguments: too many positional arguments"),
        ({"kwargs": {"depht": 3}}, "does not accept these arguments: got an unexpected keyword argument 'depht'"),
        ({"args": "eu"}, "args must be a sequence, and kwargs a mapping"),
        ({"kwargs": ["eu"]}, "args must be a sequence, and kwargs a mapping"),
        ({"args": ()}, "requires 2 arguments"),
    ],
)
def test_arguments_that_a_function_does_not_take_are_refused_at_the_decorator(
    options: dict[str, Any], message: str
) -> None:
    def fetch(region: str, depth: int) -> None: ...

    with pytest.raises(ConfigError, match=message):
        Herd(None).every("5m", **options)(fetch)


def test_a_fixed_rate_counts_from_due_instants() -> None:
    herd = roster()

    herd.every("5m", fixed_rate=True)(poll)

    assert herd.own("poll").trigger == FixedRate.parse("5m")
