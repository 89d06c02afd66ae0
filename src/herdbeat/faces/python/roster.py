"""Functions and when they run: what the decorators collect, and what becomes a fleet."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.config.plain import located, read_plain
from herdbeat.domain.fleet import Fleet, Server
from herdbeat.domain.schedule import DEFAULT_NAME, Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.errors import ConfigError, NotFound, Place, Problem, RunnerError
from herdbeat.faces.python.agents import checked, told
from herdbeat.faces.python.options import Duration, Moment, Options
from herdbeat.runners.functions import Function, described

F = TypeVar("F", bound=Callable[..., Any])

_OF_TARGET = ("description", "max_concurrent")
_SHOWN = 5


class Roster:
    """Takes functions by decorator. The ledger keeps each by its name, `module:function`; this keeps the object.

    So a closure, a lambda or a method will do, given a `name` where it has none.
    """

    def __init__(self, name: str, zone: ZoneInfo, defaults: Options | None = None) -> None:
        self.name = name
        self.zone = zone
        self._defaults: Mapping[str, object] = dict(defaults or {})
        self.functions: dict[str, Function] = {}
        self._targets: dict[str, Target] = {}
        self._schedules: dict[str, Schedule] = {}

    def every(self, interval: Duration, **options: Unpack[Options]) -> Callable[[F], F]:
        """Run it at once, and then so long after the end of each run: "30s", "5m", "1h", "1d"."""
        return self._adder({"every": interval}, options)

    def cron(self, expression: str, **options: Unpack[Options]) -> Callable[[F], F]:
        """Run it when a cron expression says so, in `timezone` or the herd's own."""
        return self._adder({"cron": expression}, options)

    def at(self, moment: Moment, **options: Unpack[Options]) -> Callable[[F], F]:
        """Run it once, at a moment with an offset."""
        return self._adder({"at": moment}, options)

    def by_hand(self, **options: Unpack[Options]) -> Callable[[F], F]:
        """Run it only when it is triggered."""
        return self._adder({"type": "manual"}, options)

    def remove(self, label: str) -> None:
        """Take a schedule out. Its history stays. Raises NotFound for one that is not there."""
        schedule = self._schedules.pop(self.own(label).id)
        if all(each.target != schedule.target for each in self._schedules.values()):
            gone = self._targets.pop(schedule.target)
            assert isinstance(gone.spec, CallableSpec)
            self.functions.pop(gone.spec.call, None)

    @property
    def labels(self) -> list[str]:
        """What is scheduled, in the order of the decorators."""
        return [each.label for each in self._schedules.values()]

    def own(self, label: str) -> Schedule:
        """What is scheduled by that name. Raises NotFound, with the names there are."""
        found = self._schedules.get(label if "/" in label else f"{label}/{DEFAULT_NAME}")
        if found is None:
            known = ", ".join(self.labels[:_SHOWN]) + (", …" if len(self.labels) > _SHOWN else "")
            hint = f"It has {known}." if known else "Is its decorator on another herd?"
            raise NotFound(f'This herd has no schedule "{label}".', hint=hint)
        return found

    def take_over(self, other: "Roster") -> None:
        """Have everything that another one has, as it stands now."""
        fleet = other.fleet("")
        self.functions |= other.functions
        self._targets |= {each.name: each for each in fleet.targets}
        self._schedules |= {each.id: each for each in fleet.schedules}

    def fleet(self, store: str) -> Fleet:
        return Fleet(
            name=self.name,
            zone=self.zone,
            targets=tuple(self._targets.values()),
            schedules=tuple(self._schedules.values()),
            store=store,
            server=Server(),
            home=str(Path.cwd()),
        )

    def _adder(self, trigger: Mapping[str, object], options: Options) -> Callable[[F], F]:
        _refuse_bare(trigger)

        def add(function: F) -> F:
            self._add(function, trigger, dict(options))
            return function

        return add

    def _add(self, function: Callable[..., Any], trigger: Mapping[str, object], options: dict[str, object]) -> None:
        place = place_of(function)
        label = str(options.pop("name", None) or _own_name(function, place))
        target, _, name = label.partition("/")
        place = replace(place, path=label)
        call = self._call_name(function, target)
        self._refuse_other(target, call, place)
        self._refuse_again(f"{target}/{name or DEFAULT_NAME}", function, call, place)
        read = self._read(target, name or DEFAULT_NAME, {**trigger, **self._defaults, **options}, place)
        try:
            self.functions[call] = described(call, function)
        except RunnerError as error:
            raise refusal(Code.INVALID_VALUE, error.message, error.hint, place) from error
        new, before = read.targets[0], self._targets.get(target)
        if before is not None and "max_concurrent" not in options:
            new = replace(new, max_concurrent=before.max_concurrent)
        self._targets[target] = replace(new, spec=CallableSpec(call=call))
        self._schedules[read.schedules[0].id] = read.schedules[0]

    def _read(self, target: str, name: str, options: Mapping[str, object], place: Place) -> Fleet:
        """By the tables of the files: the same keys, the same checks, the same words."""
        own: dict[str, object] = {"name": target, "call": "herd:function"}
        own["description"] = options.get("description", "")
        if "max_concurrent" in options:
            own["instances"] = {"max_concurrent": options["max_concurrent"]}
        policies = {key: value for key, value in options.items() if key not in _OF_TARGET}
        own["schedules"] = located({name: located(policies, place)}, place)
        tree = located({"callables": [located(own, place)]}, place)
        return checked(read_plain(tree, zone=self.zone, home=Path.cwd()))

    def _call_name(self, function: Callable[..., Any], target: str) -> str:
        """Two lambdas of one scope share their name: then the target tells them apart."""
        module = getattr(function, "__module__", None) or type(function).__module__
        name = f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        known = self.functions.get(name)
        owner = next((each for each in self._targets.values() if _call_of(each) == name), None)
        is_other = known is not None and known.call != function and owner is not None and owner.name != target
        return f"{name}<{target}>" if is_other else name

    def _refuse_other(self, target: str, call: str, place: Place) -> None:
        known = self._targets.get(target)
        if known is not None and _call_of(known) != call:
            message = f'"{target}" is already the name of {_call_of(known)}, at {known.origin}.'
            raise refusal(Code.DUPLICATE_NAME, message, "Give one of them another name=.", place)

    def _refuse_again(self, label: str, function: Callable[..., Any], call: str, place: Place) -> None:
        """Not if the function is a new one: a module that is loaded again, or a cell, replaces what it had."""
        known = self._schedules.get(label)
        if known is not None and self.functions[call].call == function:
            message = f'"{known.label}" is already scheduled, {known.trigger.describe()}.'
            hint = f'Give the second one a name: name="{known.target}/second".'
            raise refusal(Code.DUPLICATE_NAME, message, hint, place)


def _refuse_bare(trigger: Mapping[str, object]) -> None:
    """`@herd.every` without its brackets would take the function for the interval, and nothing would ever run."""
    for word, value in trigger.items():
        if callable(value):
            message, hint = f"@herd.{word} was given a function.", f"Say when, in brackets: @herd.{word}(…)."
            raise refusal(Code.INVALID_VALUE, message, hint, replace(place_of(value), path=word))


def refusal(code: Code, message: str, hint: str, place: Place) -> ConfigError:
    return told([Problem(code=code, message=f"{place.path}: {message}", where=place, hint=hint)])


def place_of(function: Callable[..., Any]) -> Place:
    """Where it is written, for `explain` and for errors; the module alone for what Python does not know the line of."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return Place(file=getattr(function, "__module__", None) or "python", line=1, column=1)
    return Place(file=_shown(code.co_filename), line=code.co_firstlineno, column=1)


def _shown(file: str) -> str:
    path = Path(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else file


def _own_name(function: Callable[..., Any], place: Place) -> str:
    name = getattr(function, "__name__", "")
    if not name or "<" in name:
        what = "A lambda" if name else f"A {type(function).__name__}"
        place = replace(place, path="name")
        raise refusal(Code.MISSING_KEY, f"{what} has no name.", 'Give it one: name="poll".', place)
    return str(name)


def _call_of(target: Target) -> str:
    assert isinstance(target.spec, CallableSpec)
    return target.spec.call
