"""The registry of scheduled functions: decorators add to it, and `fleet` returns it as a Fleet."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import load_callable
from herdbeat.bootstrap.embedding import Function, inspect_function
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, NotFound, Problem, RunnerError, SourceLocation
from herdbeat.python_api.options import (
    DurationOption,
    ScheduleOptions,
    TimeOption,
    build_config_error,
    require_loaded_fleet,
)

F = TypeVar("F", bound=Callable[..., Any])

_TARGET_OPTIONS = ("description", "max_concurrent")
_MAX_LISTED_NAMES = 5


class ScheduleRegistry:
    """Registers functions by decorator. The ledger stores the name `module:function`; the registry keeps the object.

    Therefore closures, lambdas and methods can be registered. One without a name of its own needs `name=`.
    """

    def __init__(self, name: str, zone: ZoneInfo, defaults: ScheduleOptions | None = None) -> None:
        self.name = name
        self.zone = zone
        self._defaults: Mapping[str, object] = dict(defaults or {})
        self.functions: dict[str, Function] = {}
        self.bound_functions: dict[str, Function] = {}
        self._targets: dict[str, Target] = {}
        self._schedules: dict[str, Schedule] = {}

    def every(
        self, interval: DurationOption, *, fixed_rate: bool = False, **options: Unpack[ScheduleOptions]
    ) -> Callable[[F], F]:
        """Run the function now, and again `interval` after the end of each run: "30s", "5m", "1h", "1d".

        With `fixed_rate` the interval counts from each due instant, however long the runs take.
        """
        anchor = {"anchor": "start"} if fixed_rate else {}
        return self._build_decorator({"every": interval, **anchor}, options)

    def cron(self, expression: str, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Run the function at the times of a cron expression, in `timezone` or the zone of the herd."""
        return self._build_decorator({"cron": expression}, options)

    def at(self, moment: TimeOption, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Run the function once, at a moment that has a UTC offset."""
        return self._build_decorator({"at": moment}, options)

    def by_hand(self, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Run the function only when it is triggered."""
        return self._build_decorator({"type": "manual"}, options)

    def remove(self, label: str) -> None:
        """Remove a schedule and keep its history. Raises NotFound if there is no such schedule."""
        schedule = self._schedules.pop(self.own(label).id)
        self.bound_functions.pop(schedule.id, None)
        if all(each.target != schedule.target for each in self._schedules.values()):
            gone = self._targets.pop(schedule.target)
            assert isinstance(gone.spec, CallableSpec)
            self.functions.pop(gone.spec.call, None)

    @property
    def labels(self) -> list[str]:
        """The labels of all schedules, in the order of the decorators."""
        return [each.label for each in self._schedules.values()]

    def own(self, label: str) -> Schedule:
        """Return the schedule with that label. Raises NotFound, which lists the known labels."""
        found = self._schedules.get(label if "/" in label else f"{label}/{DEFAULT_SCHEDULE_NAME}")
        if found is None:
            known = ", ".join(self.labels[:_MAX_LISTED_NAMES]) + (", …" if len(self.labels) > _MAX_LISTED_NAMES else "")
            hint = f"It has {known}." if known else "Check that its decorator belongs to this herd."
            raise NotFound(f'This herd has no schedule "{label}".', hint=hint)
        return found

    def take_over(self, other: "ScheduleRegistry") -> None:
        """Add everything that another registry has now. Later additions to it are not followed."""
        fleet = other.fleet("")
        self.functions |= other.functions
        self.bound_functions |= other.bound_functions
        self._targets |= {each.name: each for each in fleet.targets}
        self._schedules |= {each.id: each for each in fleet.schedules}

    def fleet(self, store: str) -> Fleet:
        return Fleet(
            name=self.name,
            zone=self.zone,
            targets=tuple(self._targets.values()),
            schedules=tuple(self._schedules.values()),
            store=store,
            server=ServerSettings(),
            home=str(Path.cwd()),
        )

    def _build_decorator(self, trigger: Mapping[str, object], options: ScheduleOptions) -> Callable[[F], F]:
        _require_trigger_argument(trigger)

        def add(function: F) -> F:
            self._add(function, trigger, dict(options))
            return function

        return add

    def _add(self, function: Callable[..., Any], trigger: Mapping[str, object], options: dict[str, object]) -> None:
        location = locate_function(function)
        label = str(options.pop("name", None) or _default_name(function, location))
        target, _, name = label.partition("/")
        location = replace(location, path=label)
        bound = _bind_arguments(function, options.pop("args", ()), options.pop("kwargs", {}), location)
        call = self._call_name(function, target, has_arguments=bound is not function)
        self._require_same_callable(target, call, location)
        self._require_not_scheduled(f"{target}/{name or DEFAULT_SCHEDULE_NAME}", function, call, location)
        read = self._read(target, name or DEFAULT_SCHEDULE_NAME, {**trigger, **self._defaults, **options}, location)
        try:
            inspected = inspect_function(call, bound)
        except RunnerError as error:
            raise build_registration_error(Code.INVALID_VALUE, error.message, error.hint, location) from error
        self.functions[call] = replace(inspected, call=function)
        if bound is not function:
            self.bound_functions[read.schedules[0].id] = inspected
        new, before = read.targets[0], self._targets.get(target)
        if before is not None and "max_concurrent" not in options:
            new = replace(new, max_concurrent=before.max_concurrent)
        self._targets[target] = replace(new, spec=CallableSpec(call=call))
        self._schedules[read.schedules[0].id] = read.schedules[0]

    def _read(self, target: str, name: str, options: Mapping[str, object], location: SourceLocation) -> Fleet:
        own: dict[str, object] = {"name": target, "call": "herd:function"}
        own["description"] = options.get("description", "")
        if "max_concurrent" in options:
            own["instances"] = {"max_concurrent": options["max_concurrent"]}
        schedule = {key: value for key, value in options.items() if key not in _TARGET_OPTIONS}
        return require_loaded_fleet(load_callable(own, name, schedule, location, self.zone))

    def _call_name(self, function: Callable[..., Any], target: str, *, has_arguments: bool) -> str:
        """Return the name under which the ledger stores the function.

        Two lambdas of one scope have the same name, so the target is added to it. A function with bound arguments gets
        it too: another process that imported the function by its name would call it without them.
        """
        module = getattr(function, "__module__", None) or type(function).__module__
        name = f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        known = self.functions.get(name)
        owner = next((each for each in self._targets.values() if _callable_path(each) == name), None)
        is_other = known is not None and known.call != function and owner is not None and owner.name != target
        return f"{name}<{target}>" if is_other or has_arguments else name

    def _require_same_callable(self, target: str, call: str, location: SourceLocation) -> None:
        known = self._targets.get(target)
        if known is not None and _callable_path(known) != call:
            message = f'"{target}" is already used for {_callable_path(known)}, at {known.origin}.'
            raise build_registration_error(Code.DUPLICATE_NAME, message, "Give one of them another name=.", location)

    def _require_not_scheduled(
        self, label: str, function: Callable[..., Any], call: str, location: SourceLocation
    ) -> None:
        """Raise ConfigError for a second schedule with the same label and function.

        A new function object replaces the old one: a module was loaded again, or a notebook cell was executed again.
        """
        known = self._schedules.get(label)
        if known is not None and self.functions[call].call == function:
            message = f'"{known.label}" is already scheduled, {known.trigger.describe()}.'
            hint = f'Give the second one a name: name="{known.target}/second".'
            raise build_registration_error(Code.DUPLICATE_NAME, message, hint, location)


def _require_trigger_argument(trigger: Mapping[str, object]) -> None:
    """Raise ConfigError for `@herd.every` without parentheses: the function would be its interval, and never run."""
    for word, value in trigger.items():
        if callable(value):
            message, hint = (
                f"@herd.{word} was called without a schedule.",
                f"Pass the schedule in parentheses: @herd.{word}(…).",
            )
            raise build_registration_error(
                Code.INVALID_VALUE, message, hint, replace(locate_function(value), path=word)
            )


def _bind_arguments(
    function: Callable[..., Any], args: object, kwargs: object, location: SourceLocation
) -> Callable[..., Any]:
    """Return the function with its arguments. Raises ConfigError for arguments that it does not take."""
    if not isinstance(args, Sequence) or isinstance(args, str) or not isinstance(kwargs, Mapping):
        hint = 'Write args=("eu", 3) and kwargs={"region": "eu"}.'
        raise build_registration_error(
            Code.INVALID_VALUE, "args must be a sequence, and kwargs a mapping.", hint, location
        )
    if not args and not kwargs:
        return function
    try:
        inspect.signature(function).bind_partial(*args, **kwargs)
    except TypeError as error:
        hint = "Correct args and kwargs."
        raise build_registration_error(
            Code.INVALID_VALUE, f"The function does not accept these arguments: {error}.", hint, location
        ) from error
    except ValueError:
        pass  # a function written in C, without a signature
    return partial(function, *args, **kwargs)


def build_registration_error(code: Code, message: str, hint: str, location: SourceLocation) -> ConfigError:
    return build_config_error([Problem(code=code, message=f"{location.path}: {message}", where=location, hint=hint)])


def locate_function(function: Callable[..., Any]) -> SourceLocation:
    """Return file and line of a function, for `explain` and errors; only the module if Python has no line for it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return SourceLocation(file=getattr(function, "__module__", None) or "python", line=1, column=1)
    return SourceLocation(file=_relative_path(code.co_filename), line=code.co_firstlineno, column=1)


def _relative_path(file: str) -> str:
    path = Path(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else file


def _default_name(function: Callable[..., Any], location: SourceLocation) -> str:
    name = getattr(function, "__name__", "")
    if not name or "<" in name:
        what = "A lambda" if name else f"A {type(function).__name__}"
        location = replace(location, path="name")
        raise build_registration_error(Code.MISSING_KEY, f"{what} has no name.", 'Give it one: name="poll".', location)
    return str(name)


def _callable_path(target: Target) -> str:
    assert isinstance(target.spec, CallableSpec)
    return target.spec.call
