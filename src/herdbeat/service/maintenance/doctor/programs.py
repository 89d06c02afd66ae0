"""Checks of what targets need: programs, working directories, functions, environment variables."""

import ast
import os
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path

from herdbeat.domain.chat import ChatPlatform
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.references import MissingVariable, find_missing, resolve_spec
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec, CallableSpec, CommandSpec, Target
from herdbeat.domain.webhook import HookMethod
from herdbeat.errors import HerdbeatError
from herdbeat.service.chat.routing import find_connectors
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning
from herdbeat.store.location import StoreLocation, open_reader
from herdbeat.store.reader import Filter, Reader
from herdbeat.triggers import Webhook

_INSTALL_HINTS = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "gemini": "npm install -g @google/gemini-cli",
    "qwen": "npm install -g @qwen-code/qwen-code",
    "opencode": "npm install -g opencode-ai",
    "gh": "Install the GitHub CLI.",
}
_KNOWN_KEYS = frozenset(
    {
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"),
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "GITHUB_TOKEN", "GH_TOKEN"),
    }
)
"""Variables that agents and their tools expect in their environment."""

_MAX_LISTED = 1_000
_VARIABLE_REFERENCE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


def check_programs(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report each program that cannot be started, once, with the targets that need it."""
    broken, found = defaultdict[tuple[str, str, str], list[str]](list), 0
    for target in fleet.targets:
        program, folder = _find_program(target, fleet.home)
        if not program:
            continue
        fault = _find_fault(program, folder, environ.get("PATH", os.defpath))
        if fault is None:
            found += 1
        else:
            broken[program, *fault].append(target.name)
    if found and not broken:
        yield report_ok("programs", f"programs of {found} target{'' if found == 1 else 's'} found")
    for (program, what, fix), names in broken.items():
        yield report_problem(Path(program).name, f"{what}: {_format_targets(names)} cannot run", fix)


def check_folders(fleet: Fleet) -> Iterator[DoctorFinding]:
    """Report each working directory that is not there, once, with the targets that run in it."""
    missing = defaultdict[str, list[str]](list)
    for target in fleet.targets:
        spec = target.spec
        if isinstance(spec, AgentSpec | CommandSpec) and not Path(fleet.home, spec.working_directory).is_dir():
            missing[os.path.normpath(Path(fleet.home, spec.working_directory))].append(target.name)
    for folder, names in missing.items():
        what = "is not a folder" if Path(folder).exists() else "does not exist"
        text = f"{folder} {what}: {_format_targets(names)} cannot run"
        yield report_problem("folder", text, "Correct working_directory:, or create the folder.")


def check_modules(fleet: Fleet, path: Iterable[str]) -> Iterator[DoctorFinding]:
    """Look for each function without importing its module: an import would run its code."""
    folders = [fleet.home, *path]
    for target in fleet.targets:
        if isinstance(target.spec, CallableSpec):
            module, _, function = target.spec.call.partition(":")
            source = _find_source(module, folders)
            if source is None:
                text = f"There is no module {module}: {target.name} cannot run"
                yield report_problem("callable", text, "Install it in herdbeat's Python environment.")
            elif not _defines(source, function.partition(".")[0]):
                text = f"{module} has no function {function}: {target.name} cannot run"
                yield report_problem("callable", text, "Correct call:, or define the function.")


def _find_source(module: str, folders: Sequence[str]) -> str | None:
    """Return the Python source of a module; empty if it has none to look at; None if there is no such module."""
    first, *rest = module.split(".")
    if BuiltinImporter.find_spec(first) or FrozenImporter.find_spec(first):
        return ""  # builtins, sys and time are in no folder
    spec = PathFinder.find_spec(first, folders)
    for name in rest:
        inner = spec.submodule_search_locations if spec is not None else None
        if inner is None:
            return None
        spec = PathFinder.find_spec(name, list(inner))
    if spec is None:
        return None
    with suppress(OSError, UnicodeDecodeError):
        if spec.origin is not None and spec.origin.endswith(".py"):
            return Path(spec.origin).read_text(encoding="utf-8")
    return ""


def _defines(source: str, name: str) -> bool:
    """Return whether a module has a name. A module that makes its names while it is imported is believed."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return True  # the first run reports the mistake itself, with its line
    names = {each for node in ast.walk(tree) for each in _iter_defined_names(node)}
    return not source or name in names or not names.isdisjoint(("*", "__getattr__", "globals"))


def _iter_defined_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]


def check_environment(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report variables that a target asks for and the node lacks, and keys that are here and reach no program."""
    specs = [each for each in fleet.targets if isinstance(each.spec, AgentSpec | CommandSpec)]
    wanted = defaultdict[str, list[str]](list)
    passed = set[str]()
    for target in specs:
        assert isinstance(target.spec, AgentSpec | CommandSpec)
        passed |= {*target.spec.env, *target.spec.env_values, *_list_login_variables(target.spec)}
        for name in target.spec.env:
            if name not in environ:
                wanted[name].append(target.name)
    for name, targets in wanted.items():
        text = f"{name} is not set, but {_format_targets(targets)} needs it"
        yield report_warning("variable", text, f"export {name}=…, or write it to .env beside the fleet file.")
    yield from _check_unpassed_keys(fleet, environ.keys(), passed) if specs else ()


def keep_local_targets(fleet: Fleet) -> Fleet:
    """Return the fleet without targets that run on an engine: its machines have their programs and folders."""

    def is_local(target: Target) -> bool:
        spec = target.spec
        return not isinstance(spec, AgentSpec | CommandSpec) or spec.executor in (None, ExecutorKind.LOCAL)

    return replace(fleet, targets=tuple(filter(is_local, fleet.targets)))


def resolve_targets(fleet: Fleet, environ: Mapping[str, str]) -> Fleet:
    """Return the fleet with the values that its targets get on this machine, as far as it has them."""

    def resolve(target: Target) -> Target:
        with suppress(MissingVariable):
            return replace(target, spec=resolve_spec(target.spec, target.spec.variables, environ))
        return target

    return replace(fleet, targets=tuple(resolve(each) if each.spec.variables else each for each in fleet.targets))


def check_references(location: StoreLocation, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report variables that stored targets and prompts refer to, and that this machine lacks."""
    try:
        with closing(open_reader(location)) as reader:
            lacking = [name for name in reader.variables() if name not in environ]
            needed = _list_needed(reader, lacking, environ) if lacking else {}
    except HerdbeatError:
        return  # there is no ledger yet, or the check of the ledger has said what is wrong with it
    for name, users in sorted(needed.items()):
        text = (
            f"{name} is not set here, and {_format_targets(sorted(users))} refers to it: runs on this node are skipped"
        )
        yield report_problem("variable", text, f"export {name}=…, or write it to .env beside the fleet file.")


def _list_needed(reader: Reader, names: Sequence[str], environ: Mapping[str, str]) -> dict[str, set[str]]:
    """Return who needs each of these variables. One with a default is not needed."""
    records = reader.schedules(Filter(limit=_MAX_LISTED))
    known = [reader.find_target(name) for name in {each.target for each in records}]
    targets = reader.targets([each[0] for each in known if each is not None])
    needed = defaultdict[str, set[str]](set)
    for each in targets.values():
        for name in find_missing(each.spec, each.spec.variables, environ):
            needed[name].add(each.name)
    run_specs = reader.run_specs([each.id for each in records])
    for record in records:
        run_spec = run_specs[record.id]
        for name in find_missing(run_spec, run_spec.variables, environ):
            needed[name].add(record.label)
    return {name: users for name, users in needed.items() if name in names}


def check_webhook_secrets(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report webhooks that refuse every call, because no variable with one of their secrets is set."""
    for schedule in fleet.schedules:
        auth = schedule.trigger.auth if isinstance(schedule.trigger, Webhook) else None
        if auth is None or auth.method is not HookMethod.SIGNATURE or auth.has_file_secret or not auth.secret_env:
            continue
        missing = [name for name in auth.secret_env if not environ.get(name)]
        if len(missing) == len(auth.secret_env):
            text = f"{' and '.join(missing)} is not set, so {schedule.label} refuses every call"
            yield report_problem("webhook", text, f"export {missing[0]}=…, or write it to .env beside the fleet file.")
        elif missing:
            text = f"{' and '.join(missing)} is not set, so {schedule.label} accepts only its other secret"
            yield report_warning("webhook", text, "Remove it from secret_env once no sender uses it.")


_MESSAGE_SECRETS = ("secret_env", "bot_token_env", "token_env", "password_env")


def check_message_secrets(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report channels, hooks, chats and a planner that cannot work, because a variable that they name is not set."""
    for name, users in _list_own_variables(fleet).items():
        if not environ.get(name):
            text = f"{name} is not set, but {', '.join(dict.fromkeys(users))} needs it"
            yield report_problem("variable", text, f"export {name}=…, or write it to .env beside the fleet file.")


def _list_own_variables(fleet: Fleet) -> dict[str, list[str]]:
    """Return the variables with secrets that herdbeat itself uses, for messages and its planner, with what needs each.

    A planner with an address of its own may need no key.
    """
    needed = defaultdict[str, list[str]](list)
    specs = [(f"the channel {name}", spec) for name, spec in (fleet.notify or {}).items()]
    for target in fleet.targets:
        hooks = [hook for each in target.hooks.values() if isinstance(each, list | tuple) for hook in each]
        specs += [(f"a hook of {target.name}", hook) for hook in hooks if isinstance(hook, Mapping)]
    for user, spec in specs:
        for name in (spec.get(key) for key in _MESSAGE_SECRETS):
            if isinstance(name, str):
                needed[name].append(user)
    for connector in (each for platform in ChatPlatform for each in find_connectors(fleet.targets, platform)):
        for name in (connector.bot_token_env, connector.app_token_env, connector.signing_secret_env):
            if name:
                needed[name].append(f"the chat of {connector.target}")
    if fleet.planner is not None and fleet.planner.needs_key:
        needed[fleet.planner.api_key_env].append("the planner")
    return needed


_SOURCE_VARIABLES = {"github": "GITHUB_TOKEN", "linear": "LINEAR_API_KEY"}


def _list_source_variables(fleet: Fleet) -> set[str]:
    """Return the variables that work sources log in with. Programs do not get them."""
    found = set[str]()
    for spec in (each.work_source for each in fleet.schedules if each.work_source is not None):
        auth = spec.get("auth")
        written = auth.get("token_env") if isinstance(auth, Mapping) else None
        found.add(str(written or _SOURCE_VARIABLES.get(str(spec.get("type")), "")))
    return found


def _list_login_variables(spec: AgentSpec | CommandSpec) -> tuple[str, ...]:
    """Return the variables that an agent's CLI gets without being listed."""
    if not isinstance(spec, AgentSpec) or spec.runtime == COMMAND_RUNTIME:
        return ()
    from herdbeat.runners.agents.presets import resolve_preset  # noqa: PLC0415 - as above

    preset = resolve_preset(spec)
    return preset.login_variables if preset is not None else ()


def _check_unpassed_keys(fleet: Fleet, names: Collection[str], passed: Collection[str]) -> Iterator[DoctorFinding]:
    """A key that is set here, and that neither `env` nor `${NAME}` gives to a program, nor herdbeat itself uses."""
    used = {*_list_source_variables(fleet), *_list_own_variables(fleet)}
    for file in (*map(Path, fleet.files), *(Path(fleet.home) / file for file in fleet.files)):
        with suppress(OSError, UnicodeDecodeError):
            used |= set(_VARIABLE_REFERENCE_PATTERN.findall(file.read_text(encoding="utf-8")))
    for name in sorted(set(names) & _KNOWN_KEYS - used - set(passed)):
        text = f"{name} is set, but not passed to any program: programs receive only the variables listed in env:"
        yield report_warning("variable", text, f"Add env: [{name}] to the target that needs it.")


def _find_program(target: Target, home: str) -> tuple[str, str]:
    """Return the program of a target and the folder it runs in; empty for a target that runs none."""
    spec = target.spec
    if isinstance(spec, CommandSpec) or (isinstance(spec, AgentSpec) and spec.command):
        return spec.command[0], os.path.join(home, spec.working_directory)  # noqa: PTH118 -- beside a program's name
    return (_find_cli(spec), home) if isinstance(spec, AgentSpec) else ("", "")


def _find_cli(spec: AgentSpec) -> str:
    """Return the program of an agent's CLI; empty for a runtime that does not exist, which `validate` reports."""
    from herdbeat.runners.agents.presets import resolve_preset  # noqa: PLC0415 - only for fleets with agents

    preset = resolve_preset(spec)
    return spec.program or (preset.program if preset is not None else "")


def _find_fault(program: str, folder: str, path: str) -> tuple[str, str] | None:
    """Return why a program cannot be started, and how to fix that; None if it can."""
    if os.sep not in program:
        if shutil.which(program, path=path) is not None:
            return None
        beside = Path(folder) / program
        if folder and beside.is_file():
            return (
                f"{program} is not on the PATH, but exists in the working directory",
                f'Write "./{program}" in command:.',
            )
        return f"{program} is not on the PATH", _INSTALL_HINTS.get(program, "Install it, or correct command:.")
    file = Path(folder) / program
    if not file.exists():
        return f"{program} does not exist", "Correct command:, or create the file."
    if file.is_dir():
        return f"{program} is a folder", "Write the path of the program in command:."
    return None if os.access(file, os.X_OK) else (f"{program} is not executable", f"chmod +x {shlex.quote(str(file))}")


def _format_targets(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} targets ({', '.join(names[:3])}{' …' if names[3:] else ''})"
