"""One draft -> a Target with its specification, or the reasons why there is none."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import assert_never

from herdbeat.codes import Code
from herdbeat.config.drafts import Draft
from herdbeat.config.forms import LONG_DURATION
from herdbeat.config.keys.policies import BUDGET
from herdbeat.config.keys.targets import BESIDE, MAX_CONCURRENT, TABLES
from herdbeat.config.links import check_channels
from herdbeat.config.merge import without
from herdbeat.config.policies import read_budget
from herdbeat.config.report import Report
from herdbeat.config.schedules import read_tool_policy
from herdbeat.config.settings import Settings
from herdbeat.config.shapes import Whole
from herdbeat.domain.target import (
    AgentSpec,
    CallableSpec,
    CommandSpec,
    EndpointSpec,
    Target,
    TargetKind,
    TargetSpec,
)
from herdbeat.located import Located, Plain

_BESIDE_NAMES = {
    kind: {name for name, key in table.by_name.items() if any(key is beside for beside in BESIDE)} - {BUDGET.name}
    for kind, table in TABLES.items()
}


def read_target(draft: Draft, report: Report, *, has_schedules: bool) -> Target | None:
    """The target; None after every problem of its own keys was reported.

    What stands beside its name for its schedules is judged with them: a bad jitter costs the
    schedule, not the target.
    """
    mark = report.errors
    judged_later = {"schedules"} | (_BESIDE_NAMES[draft.kind] if has_schedules else set())
    TABLES[draft.kind].check(without(draft.node, *judged_later), report)
    check_channels(draft, report)
    if draft.kind is TargetKind.AGENT:
        _check_runtime(draft.node, report)
    if draft.is_refused or report.errors > mark:
        return None
    block = draft.node.child("instances")
    return Target(
        name=draft.name,
        spec=_spec(draft),
        description=_text(draft.node, "description") or "",
        max_concurrent=MAX_CONCURRENT.of(block) or 1,
        budget=read_budget(Settings(draft.node, "")),
        hooks=_hooks(draft.node),
        origin=draft.node.label,
    )


def _check_runtime(node: Located, report: Report) -> None:
    """The runtime `command` is nothing without one; all others bring their own."""
    runtime, command = node.child("runtime"), node.child("command")
    is_command = runtime is not None and runtime.value == "command"
    if is_command and command is None:
        message = 'Runtime "command" needs "command".'
        report.error(Code.MISSING_KEY, message, node.find(("runtime",)).place, "Add command: [program, argument].")
    elif command is not None and not is_command:
        message = '"command" has no effect without "runtime: command".'
        report.warning(Code.NOT_SERVED, message, command.label, "Add runtime: command, or remove it.")


def _spec(draft: Draft) -> TargetSpec:
    match draft.kind:
        case TargetKind.AGENT:
            return _agent(draft)
        case TargetKind.ENDPOINT:
            return _endpoint(draft.node)
        case TargetKind.COMMAND:
            return CommandSpec(
                command=_texts(draft.node, "command") or (),
                working_directory=_working_directory(draft),
                env=_env_names(draft.node),
                env_values=_env_values(draft.node),
            )
        case TargetKind.CALLABLE:
            return CallableSpec(call=_text(draft.node, "call") or "")
        case _:
            assert_never(draft.kind)


def _endpoint(node: Located) -> EndpointSpec:
    body = node.child("body")
    return EndpointSpec(
        url=_text(node, "url") or "",
        method=_text(node, "method") or "GET",
        headers={name: str(value) for name, value in _mapping(node, "headers").items()},
        body=body.plain() if body is not None else None,
        ok=_text(node, "ok"),
    )


def _agent(draft: Draft) -> AgentSpec:
    node = draft.node
    session = node.child("session")
    timeout = session.child("timeout") if session else None
    return AgentSpec(
        runtime=_text(node, "runtime") or "sdk",
        working_directory=_working_directory(draft),
        command=_texts(node, "command") or (),
        env=_env_names(node),
        env_values=_env_values(node),
        default_prompt=_text(node, "default_prompt"),
        system_prompt=_text(node, "system_prompt"),
        model=_text(node, "model"),
        max_turns=_whole(node, "max_turns"),
        permission_mode=_text(node, "permission_mode") or "acceptEdits",
        tools=_texts(node, "tools"),
        allowed_tools=_texts(node, "allowed_tools") or (),
        denied_tools=_texts(node, "denied_tools") or (),
        mcp_servers={name: _as_mapping(value) for name, value in _mapping(node, "mcp_servers").items()},
        plugins=tuple(_list(node, "plugins")),
        setting_sources=_texts(node, "setting_sources") or ("project",),
        tool_policy=read_tool_policy(node),
        session_timeout=LONG_DURATION.read(timeout) if timeout else timedelta(hours=24),
        session_max_turns=_whole(session, "max_turns"),
        repo=_text(node, "repo"),
        metadata_file=_text(node, "metadata_file") or "metadata.json",
        docker=_mapping(node, "docker") or None,
        chat=_mapping(node, "chat"),
    )


def _hooks(node: Located) -> Mapping[str, object]:
    """The hooks block; for short, its two lists may also stand beside the name."""
    return _mapping(node, "hooks") | {name: _list(node, name) for name in ("after_run", "on_error") if node.child(name)}


def _working_directory(draft: Draft) -> str:
    """Relative to the fleet's folder, if it is written as relative to anything.

    It was absolute once: a second machine ran its commands in a folder that only the first one had.
    """
    written = draft.node.child("working_directory")
    if written is not None and isinstance(written.value, dict):
        written = written.child("root")
    path = os.path.expanduser(str(written.value)) if written is not None else "."  # noqa: PTH111 -- Path's own raises
    is_fixed = Path(path).is_absolute()
    return os.path.normpath(path) if is_fixed else os.path.relpath(draft.home / path, draft.top)


def _env_names(node: Located) -> tuple[str, ...]:
    return tuple(str(name) for name in _list(node, "env"))


def _env_values(node: Located) -> Mapping[str, str]:
    return {name: str(value) for name, value in _mapping(node, "env").items()}


def _text(node: Located, name: str) -> str | None:
    child = node.child(name)
    return child.value if child is not None and isinstance(child.value, str) else None


def _whole(node: Located | None, name: str) -> int | None:
    child = node.child(name) if node is not None else None
    return Whole().read(child) if child is not None and child.value is not None else None


def _texts(node: Located, name: str) -> tuple[str, ...] | None:
    child = node.child(name)
    return tuple(str(each.value) for each in child.elements()) if child is not None else None


def _list(node: Located, name: str) -> list[Plain]:
    child = node.child(name)
    plain = child.plain() if child is not None else None
    return plain if isinstance(plain, list) else []


def _mapping(node: Located, name: str) -> dict[str, Plain]:
    child = node.child(name)
    return _as_mapping(child.plain()) if child is not None else {}


def _as_mapping(plain: Plain) -> dict[str, Plain]:
    return plain if isinstance(plain, dict) else {}
