"""One draft -> a Target with its specification, or the reasons why there is none."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import assert_never

from herdbeat.codes import Code
from herdbeat.config.drafts import TargetSource
from herdbeat.config.forms import LONG_DURATION
from herdbeat.config.keys.policies import BUDGET
from herdbeat.config.keys.targets import MAX_CONCURRENT, TARGET_LEVEL_KEYS, TARGET_TABLES
from herdbeat.config.links import check_hook_channels
from herdbeat.config.merge import drop_keys
from herdbeat.config.policies import build_budget
from herdbeat.config.report import Diagnostics
from herdbeat.config.schedules import build_tool_policy
from herdbeat.config.settings import SectionReader
from herdbeat.config.shapes import Integer
from herdbeat.domain.target import (
    AgentSpec,
    CallableSpec,
    CommandSpec,
    EndpointSpec,
    Target,
    TargetKind,
    TargetSpec,
)
from herdbeat.located import ConfigNode, PlainData

_TARGET_LEVEL_KEY_NAMES = {
    kind: {name for name, key in table.by_name.items() if any(key is shared_key for shared_key in TARGET_LEVEL_KEYS)}
    - {BUDGET.name}
    for kind, table in TARGET_TABLES.items()
}


def build_target(target_source: TargetSource, diagnostics: Diagnostics, *, has_schedules: bool) -> Target | None:
    """The target; None after every problem of its own keys was reported.

    What stands beside its name for its schedules is judged with them: a bad jitter costs the
    schedule, not the target.
    """
    errors_before = diagnostics.error_count
    deferred_keys = {"schedules"} | (_TARGET_LEVEL_KEY_NAMES[target_source.kind] if has_schedules else set())
    TARGET_TABLES[target_source.kind].validate(drop_keys(target_source.node, *deferred_keys), diagnostics)
    check_hook_channels(target_source, diagnostics)
    if target_source.kind is TargetKind.AGENT:
        _check_runtime(target_source.node, diagnostics)
    if target_source.is_invalid or diagnostics.error_count > errors_before:
        return None
    block = target_source.node.child("instances")
    return Target(
        name=target_source.name,
        spec=_build_spec(target_source),
        description=_get_text(target_source.node, "description") or "",
        max_concurrent=MAX_CONCURRENT.get(block) or 1,
        budget=build_budget(SectionReader(target_source.node, "")),
        hooks=_build_hooks(target_source.node),
        origin=target_source.node.report_location,
    )


def _check_runtime(node: ConfigNode, diagnostics: Diagnostics) -> None:
    """The runtime `command` is nothing without one; all others bring their own."""
    runtime, command = node.child("runtime"), node.child("command")
    is_command = runtime is not None and runtime.value == "command"
    if is_command and command is None:
        message = 'Runtime "command" needs "command".'
        diagnostics.error(
            Code.MISSING_KEY, message, node.find(("runtime",)).location, "Add command: [program, argument]."
        )
    elif command is not None and not is_command:
        message = '"command" has no effect without "runtime: command".'
        diagnostics.warning(Code.NOT_SERVED, message, command.report_location, "Add runtime: command, or remove it.")


def _build_spec(target_source: TargetSource) -> TargetSpec:
    match target_source.kind:
        case TargetKind.AGENT:
            return _build_agent(target_source)
        case TargetKind.ENDPOINT:
            return _build_endpoint(target_source.node)
        case TargetKind.COMMAND:
            return CommandSpec(
                command=_get_texts(target_source.node, "command") or (),
                working_directory=_resolve_working_directory(target_source),
                env=_get_env_names(target_source.node),
                env_values=_get_env_values(target_source.node),
            )
        case TargetKind.CALLABLE:
            return CallableSpec(call=_get_text(target_source.node, "call") or "")
        case _:
            assert_never(target_source.kind)


def _build_endpoint(node: ConfigNode) -> EndpointSpec:
    body = node.child("body")
    return EndpointSpec(
        url=_get_text(node, "url") or "",
        method=_get_text(node, "method") or "GET",
        headers={name: str(value) for name, value in _get_mapping(node, "headers").items()},
        body=body.to_data() if body is not None else None,
        ok=_get_text(node, "ok"),
    )


def _build_agent(target_source: TargetSource) -> AgentSpec:
    node = target_source.node
    session = node.child("session")
    timeout = session.child("timeout") if session else None
    return AgentSpec(
        runtime=_get_text(node, "runtime") or "sdk",
        working_directory=_resolve_working_directory(target_source),
        command=_get_texts(node, "command") or (),
        env=_get_env_names(node),
        env_values=_get_env_values(node),
        default_prompt=_get_text(node, "default_prompt"),
        system_prompt=_get_text(node, "system_prompt"),
        model=_get_text(node, "model"),
        max_turns=_get_integer(node, "max_turns"),
        permission_mode=_get_text(node, "permission_mode") or "acceptEdits",
        tools=_get_texts(node, "tools"),
        allowed_tools=_get_texts(node, "allowed_tools") or (),
        denied_tools=_get_texts(node, "denied_tools") or (),
        mcp_servers={name: _as_mapping(value) for name, value in _get_mapping(node, "mcp_servers").items()},
        plugins=tuple(_get_list(node, "plugins")),
        setting_sources=_get_texts(node, "setting_sources") or ("project",),
        tool_policy=build_tool_policy(node),
        session_timeout=LONG_DURATION.read(timeout) if timeout else timedelta(hours=24),
        session_max_turns=_get_integer(session, "max_turns"),
        repo=_get_text(node, "repo"),
        metadata_file=_get_text(node, "metadata_file") or "metadata.json",
        docker=_get_mapping(node, "docker") or None,
        chat=_get_mapping(node, "chat"),
    )


def _build_hooks(node: ConfigNode) -> Mapping[str, object]:
    """The hooks block; for short, its two lists may also stand beside the name."""
    return _get_mapping(node, "hooks") | {
        name: _get_list(node, name) for name in ("after_run", "on_error") if node.child(name)
    }


def _resolve_working_directory(target_source: TargetSource) -> str:
    """Relative to the fleet's folder, if it is written as relative to anything.

    It was absolute once: a second machine ran its commands in a folder that only the first one had.
    """
    written = target_source.node.child("working_directory")
    if written is not None and isinstance(written.value, dict):
        written = written.child("root")
    path = os.path.expanduser(str(written.value)) if written is not None else "."  # noqa: PTH111 -- Path's own raises
    is_fixed = Path(path).is_absolute()
    return os.path.normpath(path) if is_fixed else os.path.relpath(target_source.home / path, target_source.root_folder)


def _get_env_names(node: ConfigNode) -> tuple[str, ...]:
    return tuple(str(name) for name in _get_list(node, "env"))


def _get_env_values(node: ConfigNode) -> Mapping[str, str]:
    return {name: str(value) for name, value in _get_mapping(node, "env").items()}


def _get_text(node: ConfigNode, name: str) -> str | None:
    child = node.child(name)
    return child.value if child is not None and isinstance(child.value, str) else None


def _get_integer(node: ConfigNode | None, name: str) -> int | None:
    child = node.child(name) if node is not None else None
    return Integer().read(child) if child is not None and child.value is not None else None


def _get_texts(node: ConfigNode, name: str) -> tuple[str, ...] | None:
    child = node.child(name)
    return tuple(str(each.value) for each in child.elements()) if child is not None else None


def _get_list(node: ConfigNode, name: str) -> list[PlainData]:
    child = node.child(name)
    plain = child.to_data() if child is not None else None
    return plain if isinstance(plain, list) else []


def _get_mapping(node: ConfigNode, name: str) -> dict[str, PlainData]:
    child = node.child(name)
    return _as_mapping(child.to_data()) if child is not None else {}


def _as_mapping(plain: PlainData) -> dict[str, PlainData]:
    return plain if isinstance(plain, dict) else {}
