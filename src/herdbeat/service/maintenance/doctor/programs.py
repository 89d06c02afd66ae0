"""Checks of what targets need: programs on the PATH, modules to import, environment variables."""

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import AgentSpec, CallableSpec, CommandSpec, Target
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning

_INSTALL_HINTS = {"claude": "npm i -g @anthropic-ai/claude-code", "gh": "Install the GitHub CLI."}
_RUNTIME_PROGRAMS = {"cli": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode", "aider": "aider"}


def check_programs(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report each missing program once, with the targets that need it."""
    missing, found = defaultdict[str, list[str]](list), 0
    for target in fleet.targets:
        program, folder = _find_program(target, fleet.home)
        if not program:
            continue
        if _is_executable(program, folder, environ.get("PATH", os.defpath)):
            found += 1
        else:
            missing[program].append(target.name)
    if found and not missing:
        yield report_ok("programs", f"those of {found} target{'' if found == 1 else 's'} are there")
    for program, names in missing.items():
        where = "is not there" if os.sep in program else "is not on the PATH"
        fix = _INSTALL_HINTS.get(program, "Install it, or correct command:.")
        yield report_problem(Path(program).name, f"{program} {where}: {_format_targets(names)} cannot run", fix)


def check_modules(fleet: Fleet, path: Iterable[str]) -> Iterator[DoctorFinding]:
    """Look for each module without importing it: an import would run its code."""
    folders = [fleet.home, *path]
    for target in fleet.targets:
        if isinstance(target.spec, CallableSpec):
            module = target.spec.call.partition(":")[0]
            if not _is_module(module.partition(".")[0], folders):
                text = f"There is no module {module}: {target.name} cannot run"
                yield report_problem("callable", text, "Install it beside herdbeat.")


def _is_module(name: str, folders: list[str]) -> bool:
    """In one of the folders, or in Python itself: builtins, sys and time are in no folder."""
    in_python = BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name)
    return in_python is not None or PathFinder.find_spec(name, folders) is not None


def check_environment(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    wanted = defaultdict[str, list[str]](list)
    for target in fleet.targets:
        for name in target.spec.env if isinstance(target.spec, AgentSpec | CommandSpec) else ():
            if name not in environ:
                wanted[name].append(target.name)
    for name, targets in wanted.items():
        text = f"{name} is not set, and {_format_targets(targets)} asks for it"
        yield report_warning("variable", text, f"export {name}=…")


def _find_program(target: Target, home: str) -> tuple[str, str]:
    """Return the program of a target and the folder it runs in; empty for a target that runs none."""
    spec = target.spec
    if isinstance(spec, CommandSpec) or (isinstance(spec, AgentSpec) and spec.command):
        return spec.command[0], os.path.join(home, spec.working_directory)  # noqa: PTH118 -- beside a program's name
    return (_RUNTIME_PROGRAMS.get(spec.runtime, ""), "") if isinstance(spec, AgentSpec) else ("", "")


def _is_executable(program: str, folder: str, path: str) -> bool:
    if os.sep in program:
        return os.access(Path(folder) / program, os.X_OK)
    return shutil.which(program, path=path) is not None


def _format_targets(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} targets ({', '.join(names[:3])}{' …' if names[3:] else ''})"
