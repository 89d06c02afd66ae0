"""Quick commands load nothing heavy: most of their run time is imports.

Rooms are given by the prefix of their name, so that the lists stay valid when files move inside a room.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import herdbeat

FLEET = """\
version: 1
fleet:
  name: lazy
commands:
  - name: tidy
    command: ["true"]
    schedules:
      hourly: {every: 1h}
"""

SERVER = {"fastapi", "starlette", "uvicorn", "jinja2", "herdbeat.server", "herdbeat.dashboard", "herdbeat.web"}
"""What only the server process loads, and no command at all."""

FOREIGN = SERVER | {
    "yaml",
    "asyncio",
    "aiohttp",
    "psycopg",
    "pydantic",
    "subprocess",
    "ssl",
    "http",
    "concurrent",
    "argparse",
}
"""Packages that no quick command needs."""

ENGINE = {"herdbeat.runners.", "herdbeat.scheduler", "herdbeat.governor", "herdbeat.prompts", "bench.load"}
SERVING = {
    # The parts of the scheduler and of its transports that `show` must not load, although it needs others.
    "herdbeat.scheduler.loop",
    "herdbeat.scheduler.node",
    "herdbeat.scheduler.complete",
    "herdbeat.scheduler.claim",
    "herdbeat.scheduler.evaluate",
    "herdbeat.scheduler.apply",
    "herdbeat.runners.process",
    "herdbeat.runners.http",
    "herdbeat.control_socket.server",
    "herdbeat.python_api",
    "herdbeat.bootstrap.fleet",
    "herdbeat.store.postgres",
    "herdbeat.store.writer",
    "herdbeat.store.sqlite.store",
    "herdbeat.store.sql_transaction",
    "herdbeat.prompts",
}
READING = {
    # YAML and the loader of fleets. They are not needed if the ledger is newer than the files.
    "herdbeat.config.build_fleet",
    "herdbeat.config.compat",
    "herdbeat.config.compat.agentd",
    "herdbeat.config.loader",
    "herdbeat.config.sources",
    "herdbeat.config.yaml",
}
NOTHING_OF_OURS = {
    *("herdbeat.config", "herdbeat.domain", "herdbeat.service", "herdbeat.store", "herdbeat.triggers"),
    *("herdbeat.runners", "herdbeat.bootstrap.config", "herdbeat.bootstrap"),
}
DIRECT = FOREIGN | ENGINE | SERVING | READING | NOTHING_OF_OURS | {"json", "sqlite3", "logging", "zoneinfo", "hashlib"}
AGENTS = {"herdbeat.domain.agent_run", "herdbeat.domain.agent_tools"}
"""Values that only the runs of agents have. To define ten data classes takes five milliseconds."""

LOOKING = FOREIGN | ENGINE | SERVING | READING
EXPLAINING = (
    FOREIGN
    | SERVING - {"herdbeat.scheduler.evaluate"}
    | READING
    | AGENTS
    | {"logging", "hashlib", "herdbeat.service.commands"}
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet with a ledger. The first `list` has written the configuration cache, so later commands read no files."""
    made = tmp_path_factory.mktemp("lazy")
    (made / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    modules_after(["apply"], made)
    modules_after(["list"], made)
    return made


@pytest.mark.parametrize(
    ("line", "heavy"),
    [
        ("", DIRECT),
        ("--help", DIRECT),
        ("list --help", DIRECT),
        ("completion bash", DIRECT),
        ("completion zsh", DIRECT),
        ("completion names ti", LOOKING | {"logging", "hashlib", "cronsim", "herdbeat.triggers", "herdbeat.config."}),
        ("next @daily", FOREIGN | ENGINE | SERVING | {"json", "sqlite3", "herdbeat.config", "herdbeat.store"}),
        ("list", LOOKING | AGENTS | {"logging", "hashlib", "herdbeat.config."}),
        ("list --json", LOOKING | {"logging", "hashlib", "herdbeat.config."}),
        ("show tidy/hourly", FOREIGN | SERVING | READING),
        ("show tidy/hourly --json", FOREIGN | SERVING | READING),
        ("explain tidy/hourly", EXPLAINING),
        ("status", LOOKING - {"herdbeat.governor"} | {"logging", "herdbeat.config."}),
        ("validate", FOREIGN - {"yaml"} | ENGINE - {"herdbeat.prompts"} | {"sqlite3", "herdbeat.store.sql"}),
    ],
)
def test_a_quick_command_loads_nothing_heavy(folder: Path, line: str, heavy: set[str]) -> None:
    loaded = modules_after(line.split(), folder)

    assert sorted(name for name in loaded - LIGHT if _is_in(name, heavy)) == []


def test_listing_a_ledger_without_files_loads_nothing_that_writes(tmp_path: Path) -> None:
    modules_after(["create", "tidy", "--command", "true", "--every", "1h"], tmp_path)

    loaded = modules_after(["list"], tmp_path)

    assert (
        sorted(name for name in loaded if _is_in(name, {"herdbeat.store.sql_transaction", "herdbeat.store.audit"}))
        == []
    )


SERVE_ONE_RUN = """
import asyncio, sys
from pathlib import Path
from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import control_socket, running_fleet
from herdbeat.events import RunFinished
from herdbeat.service.commands.fleet import require_valid_fleet

async def serve():
    ended = asyncio.Event()
    listener = lambda event: ended.set() if isinstance(event, RunFinished) else None
    fleet = require_valid_fleet(load_config(None, {}, Path()))
    async with running_fleet(fleet, environ={}, listener=listener) as running, control_socket(running):
        await asyncio.wait_for(ended.wait(), 60)

asyncio.run(serve())
print(*sys.modules, file=sys.stderr)
"""
UNUSED_BY_A_PLAIN_NODE = {
    *("herdbeat.runners.agents.parsers", "herdbeat.runners.agents.presets", "herdbeat.runners.agents.preparer"),
    *("herdbeat.runners.agents.isolation", "herdbeat.runners.agents.runner", "herdbeat.runners.http.client"),
    *("herdbeat.bootstrap.chat", "herdbeat.chat", "herdbeat.service.chat", "herdbeat.bootstrap.planner"),
    *("herdbeat.planner", "herdbeat.service.planner", "herdbeat.service.notifications", "herdbeat.bootstrap.tracing"),
    *("herdbeat.notify.channels.email", "herdbeat.work.command", "herdbeat.work.directory", "herdbeat.work.github"),
    *("herdbeat.executors.ray", "herdbeat.executors.kubernetes", "herdbeat.store.postgres", "smtplib", "aiohttp"),
}


def test_a_node_loads_only_what_its_fleet_uses(tmp_path: Path) -> None:
    """Most of a start is imports: agents, chat, planner and channels are loaded when the files have them."""
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")

    loaded = _run_python(SERVE_ONE_RUN, tmp_path)

    assert "herdbeat.scheduler.complete" in loaded
    assert sorted(name for name in loaded if _is_in(name, UNUSED_BY_A_PLAIN_NODE)) == []


LIGHT = {"herdbeat.config.locate", "herdbeat.runners.http", "herdbeat.runners.http.addresses"}
"""Of rooms that take time to load, but they only locate files and judge addresses, and import nothing heavy."""


def test_the_forbidden_modules_exist_and_are_loaded_where_needed(folder: Path) -> None:
    """Without this, a list of names that no longer exist would forbid nothing."""
    loaded = modules_after(["validate"], folder) | modules_after(["pause", "tidy"], folder)

    found = {each for each in FOREIGN | ENGINE | READING if any(_is_in(name, {each}) for name in loaded)}

    assert found >= {"yaml", "herdbeat.config.yaml", "herdbeat.scheduler", "herdbeat.governor", "herdbeat.prompts"}


def modules_after(words: list[str], folder: Path) -> set[str]:
    """Return the modules that a process has loaded after a command."""
    code = (
        f"import sys; from herdbeat.__main__ import main; status = main({words});"
        "print(*sys.modules, file=sys.stderr); sys.exit(status)"
    )
    return _run_python(code, folder)


def _run_python(code: str, folder: Path) -> set[str]:
    # Without the environment: a coverage run would load itself, and json, into every child.
    environ = {"PYTHONPATH": str(Path(herdbeat.__file__).parents[1]), "PATH": os.defpath, "USER": "you"}

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environ, cwd=folder
    )

    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def _is_in(name: str, rooms: set[str]) -> bool:
    """`herdbeat.config` is the package and all of it; `herdbeat.config.yaml` also `herdbeat.config.yaml`."""
    return any(
        name.startswith(each) if each.startswith("herdbeat.") else name.partition(".")[0] == each for each in rooms
    )
