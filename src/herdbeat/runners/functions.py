"""Resolves `module:function` to a Python function, and inspects how to call it."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from herdbeat.errors import RunnerError

CALL_HINT = "Correct call:, written as module:function."
ARGUMENTS_HINT = "Define it with no parameters, or with one for the run."


class NotRegistered(RunnerError):
    """The function cannot be imported (a lambda, for example), and this process has not registered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function and how to call it: awaited in the loop or in a thread, with the RunContext or without argument."""

    call: Callable[..., Any]
    is_async: bool
    takes_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFunctions:
    """Functions that this process has registered by name, so that they need no import.

    `by_schedule` has those with arguments of their own, by `target/schedule`. `override` is called with the Job of
    every run, in place of the runner of its kind.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    by_schedule: Mapping[str, Function] = field(default_factory=dict)
    override: Function | None = None


def import_function(name: str) -> Function:
    """Import a function. Raises a permanent RunnerError that names the missing part, or what the module raises."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise _call_error(f'"{name}" is not a function path.')
    if "<" in path:  # <lambda>, <locals>: it exists only where it was made
        raise NotRegistered(
            f'"{name}" cannot be imported, and this program has not registered it.',
            permanent=True,
            hint="Start the program that schedules it, or remove its schedule.",
        )
    try:
        obj: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        hint = "Correct call:, or install the module in herdbeat's environment."
        raise _call_error(f'There is no module "{module_name}".', hint) from error
    for part in path.split("."):
        if not hasattr(obj, part):
            raise _call_error(f'The module "{module_name}" has no "{path}".')
        obj = getattr(obj, part)
    return inspect_function(name, obj)


def inspect_function(name: str, obj: object) -> Function:
    """Return how to call an object. Raises RunnerError if it is not a function that a run can call."""
    if not callable(obj):
        raise _call_error(f'"{name}" is a {type(obj).__name__}, not a function.')
    if inspect.isgeneratorfunction(obj) or inspect.isasyncgenfunction(obj):
        # Calling a generator function succeeds at once, without running one line of its body.
        raise _call_error(f'"{name}" is a generator function, which cannot be run.', "Use return instead of yield.")
    return Function(call=obj, is_async=is_async(obj), takes_run=_takes_run(name, obj))


def _call_error(message: str, hint: str = CALL_HINT) -> RunnerError:
    return RunnerError(message, permanent=True, hint=hint)


def is_async(obj: Callable[..., Any]) -> bool:
    """True for `async def` functions, and for objects with an `async def __call__`."""
    return inspect.iscoroutinefunction(obj) or inspect.iscoroutinefunction(getattr(obj, "__call__", None))  # noqa: B004


def _takes_run(name: str, obj: Callable[..., Any]) -> bool:
    """True if the function requires one argument, or its first one is called `run`."""
    try:
        parameters = list(inspect.signature(obj).parameters.values())
    except (TypeError, ValueError):
        return False  # a function written in C, without a signature
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    required = [each for each in named if each.default is each.empty]
    if any(each.kind is each.KEYWORD_ONLY for each in required):
        raise _call_error(
            f'"{name}" has required keyword-only parameters; the run is passed by position.', ARGUMENTS_HINT
        )
    if len(required) > 1:
        raise _call_error(
            f'"{name}" requires {len(required)} arguments; only one can be passed: the run.', ARGUMENTS_HINT
        )
    return bool(required) or any(each.name == "run" and each.kind is not each.KEYWORD_ONLY for each in named[:1])
