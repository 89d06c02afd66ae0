"""Finds the Python function behind `module:function`, and how it wants to be called."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from herdbeat.errors import RunnerError

CALL_HINT = "Correct call, which is module:function."
ARGUMENTS_HINT = "Let it take no argument, or one: the run."


class NotRegistered(RunnerError):
    """A function without a name to import it by, in a process that does not have it at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """`is_async` ones are awaited in the loop, the others get a thread. `takes_run`: it wants to know its run."""

    call: Callable[..., Any]
    is_async: bool
    takes_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFunctions:
    """What the process brings along: functions by name, which need no import.

    `instead` is told of every run, as a Job, in place of the runner of its kind.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    override: Function | None = None


def import_function(name: str) -> Function:
    """Import it. Raises RunnerError, permanent, that names the part that is missing; what the import raises stays."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise _call_error(f'"{name}" does not name a function.')
    if "<" in path:  # <lambda>, <locals>: it exists only where it was made
        raise NotRegistered(
            f'"{name}" cannot be imported, and the program that runs here has not registered it.',
            permanent=True,
            hint="Start the program that schedules it, or remove its schedule.",
        )
    found: object = _import_module(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise _call_error(f'The module "{module_name}" has no "{path}".')
        found = getattr(found, part)
    return inspect_function(name, found)


def inspect_function(name: str, found: object) -> Function:
    """How what is at hand wants to be called. Raises RunnerError for what nobody here can call."""
    if not callable(found):
        raise _call_error(f'"{name}" is a {type(found).__name__}, not a function.')
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        # Called, it would return at once and succeed, without one line of it having run.
        raise _call_error(f'"{name}" yields; nobody would ask it for its values.', "Let it return instead.")
    return Function(call=found, is_async=is_async(found), takes_run=_takes_run(name, found))


def _import_module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it imports is not
        raise RunnerError(
            f'There is no module "{name}".', permanent=True, hint="Correct call, or install the module beside herdbeat."
        ) from error


def _call_error(message: str, hint: str = CALL_HINT) -> RunnerError:
    return RunnerError(message, permanent=True, hint=hint)


def is_async(found: Callable[..., Any]) -> bool:
    """True for what is written `async def`, and for objects whose call is."""
    return inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(getattr(found, "__call__", None))  # noqa: B004


def _takes_run(name: str, found: Callable[..., Any]) -> bool:
    """It does if it must have one argument, or may have one called `run`."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return False  # written in C, and silent about itself
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = [each for each in parameters if each.default is each.empty and each.kind not in _VARIADIC_KINDS]
    if any(each.kind is each.KEYWORD_ONLY for each in required):
        raise _call_error(f'"{name}" wants its arguments by name; it gets one, unnamed: the run.', ARGUMENTS_HINT)
    if len(required) > 1:
        raise _call_error(f'"{name}" wants {len(required)} arguments; it gets none, or one: the run.', ARGUMENTS_HINT)
    return bool(required) or bool(positional and positional[0].name == "run")


_VARIADIC_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
