"""The keys of an agent for its CLI: the runtime, its program, and the keys for which that CLI has no option."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from herdbeat.config.diagnostics import Diagnostics, find_closest_match
from herdbeat.config.nodes import ConfigNode, mark_references
from herdbeat.config.schema.runtimes import BUILTIN_RUNTIMES, HERDCTL_RUNTIMES
from herdbeat.config.sources import TargetSource
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec, OnDenied
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation, did_you_mean_suffix

if TYPE_CHECKING:
    from herdbeat.runners.agents.presets import Preset

DEFAULT_RUNTIME = "claude"
_UNSUPPORTED_HINT = "Remove the key, or choose another runtime."
_QUOTED_KEY_PATTERN = re.compile(r"`([a-z_]+)")


def check_runtime(source: TargetSource, diagnostics: Diagnostics) -> None:
    """Report a runtime that does not exist, one that its definition makes unusable, and a misplaced `command`."""
    node = source.node
    runtime, command = node.child("runtime"), node.child("command")
    name = runtime.value if runtime is not None and isinstance(runtime.value, str) else DEFAULT_RUNTIME
    if runtime is not None and name == COMMAND_RUNTIME and command is None:
        message = 'Runtime "command" needs "command".'
        diagnostics.error(Code.MISSING_KEY, message, runtime.location, "Add command: [program, argument].")
    elif command is not None and name != COMMAND_RUNTIME:
        message = '"command" has no effect without "runtime: command".'
        diagnostics.warning(Code.NOT_SERVED, message, command.report_location, "Add runtime: command, or remove it.")
    if runtime is None or not isinstance(runtime.value, str) or runtime.undefined_variable:
        return
    own = [each for each, _ in source.fleet.runtimes.items()] if source.fleet.runtimes is not None else []
    if name not in (*BUILTIN_RUNTIMES, *HERDCTL_RUNTIMES, *own):
        known = (*BUILTIN_RUNTIMES, *own)
        message = f'runtime cannot be "{name}"{did_you_mean_suffix(find_closest_match(name, known))}'
        hint = f"Write one of {', '.join(known)}, or define it under runtimes:."
        diagnostics.error(Code.INVALID_VALUE, message, runtime.location, hint)


def check_runtime_definitions(runtimes: ConfigNode, diagnostics: Diagnostics) -> None:
    """Report every fault of the runtimes that a fleet file defines."""
    if not isinstance(runtimes.value, dict):
        return
    from herdbeat.runners.agents.presets import InvalidPreset, parse_preset  # noqa: PLC0415 - only if there are any

    for name, node in runtimes.value.items():
        definition = node.to_data()
        if not isinstance(definition, dict):
            continue  # the check of all keys has reported it
        try:
            parse_preset(name, definition)
        except InvalidPreset as error:
            for problem in error.problems:
                key = _QUOTED_KEY_PATTERN.search(problem)
                where = node.child(key[1]) if key else None
                hint = "The reference of runtimes lists the keys of a definition."
                diagnostics.error(Code.INVALID_VALUE, problem, (where or node).report_location, hint)


def normalize_runtime(name: str) -> str:
    """Return the one name of a runtime: herdctl's two ways to call Claude are one here."""
    return DEFAULT_RUNTIME if name in HERDCTL_RUNTIMES else name


def find_definition(source: TargetSource, runtime: str) -> Mapping[str, object]:
    """Return how the fleet file defines a runtime; empty for a built-in one."""
    own = source.fleet.runtimes.child(runtime) if source.fleet.runtimes is not None else None
    definition = mark_references(own).to_data() if own is not None else None
    return definition if isinstance(definition, dict) else {}


def resolve_folders(source: TargetSource, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return extra folders of an agent: as written if absolute, else relative to the fleet's folder."""
    return tuple(source.resolve_path(folder) for folder in folders)


def resolve_program(source: TargetSource, program: str | None) -> str | None:
    """Return the program of an agent. A name without a slash is looked up on the PATH of the node."""
    if program is None or os.sep not in program:
        return program
    resolved = source.resolve_path(program)
    return resolved if os.sep in resolved else f".{os.sep}{resolved}"


def warn_unsupported_settings(
    source: TargetSource, spec: AgentSpec, schedules: Sequence[Schedule], diagnostics: Diagnostics
) -> None:
    """Warn of every key that the agent's CLI has no option for. None is ignored silently."""
    if spec.runtime == COMMAND_RUNTIME:
        return
    from herdbeat.runners.agents.invocation import build_argv, request_from_spec  # noqa: PLC0415 - as above
    from herdbeat.runners.agents.presets import resolve_preset  # noqa: PLC0415

    preset = resolve_preset(spec)
    if preset is None:
        return
    request = request_from_spec(spec, "prompt", "/scratch", budget_usd=_get_run_budget(source.node))
    reported = dict.fromkeys(
        (*build_argv(preset, request).warnings, *_find_ineffective_keys(source.node, spec, preset))
    )
    for warning in reported:
        key = _QUOTED_KEY_PATTERN.search(warning)
        where = source.node.child(key[1]) if key else None
        location = (where or source.node.find(("name",))).report_location
        diagnostics.warning(Code.NOT_SERVED, warning, location, _UNSUPPORTED_HINT)
    for schedule in schedules:
        budget = schedule.policies.budget
        own = replace(
            request,
            tool_policy=schedule.tool_policy or spec.tool_policy,
            session_id="any" if schedule.resume_session else None,
            budget_usd=request.budget_usd if budget is None or budget.usd_per_run is None else budget.usd_per_run,
        )
        location = schedule.origin if isinstance(schedule.origin, SourceLocation) else source.node.report_location
        warnings = build_argv(preset, own).warnings
        if schedule.on_denied is OnDenied.FAIL and not preset.reports_denials:
            warnings += (_describe_unreported_denials(preset),)
        for warning in warnings:
            if warning not in reported:
                reported[warning] = None
                diagnostics.warning(Code.NOT_SERVED, warning, location, _UNSUPPORTED_HINT)


def _find_ineffective_keys(node: ConfigNode, spec: AgentSpec, preset: "Preset") -> Iterator[str]:
    """Yield a warning for each key that is no option of a command line, and that this CLI makes ineffective."""
    if node.child("setting_sources") is not None and "setting_sources" not in preset.options:
        yield f"{preset.name} has no option for `setting_sources`."
    if spec.on_denied is OnDenied.FAIL and not preset.reports_denials:
        yield _describe_unreported_denials(preset)
    if spec.allow_create and not preset.has_own_tools:
        yield f"{preset.name}: `allow_create` has no effect: it cannot be offered herdbeat's own tools."


def _describe_unreported_denials(preset: "Preset") -> str:
    return f"{preset.name}: `on_denied` has no effect: it does not report which tools were denied."


def _get_run_budget(node: ConfigNode) -> float | None:
    budget = node.find(("budget", "usd_per_run"))
    return float(budget.value) if isinstance(budget.value, int | float) else None
