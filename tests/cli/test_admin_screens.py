"""The exact output of the commands that create and maintain, each in its own folder after some calls.

After an intended change: HERDBEAT_WRITE_GOLDEN=1 pytest tests/cli/test_admin_screens.py, and review the difference.
"""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.golden_screens import GoldenScreen, unmatched_files

from herdbeat.testing.command_line import CommandLine

FLEET = """\
version: 1
fleet: { name: my-fleet }
timezone: Europe/Berlin
agents:
  - name: triage
    runtime: command
    command: [cat]
    schedules:
      check-issues: { every: 5m, prompt: Check for new issues. }
      standup: { cron: "0 9 * * 1-5", prompt: "Sum up, for {{date}}." }
commands:
  - { name: queue-depth, command: [echo, "12"], every: 5m, min_interval: 15s }
  - { name: old-promo, command: [no-such-program], every: 1d }
"""
EDITED = (
    FLEET.replace("check-issues: { every: 5m", "check-issues: { every: 10m")
    .replace("min_interval: 15s", "min_interval: 2m")
    .replace("  - { name: old-promo, command: [no-such-program], every: 1d }\n", "")
    + '  - { name: nightly-close, command: ["true"], cron: "0 2 * * *" }\n'
)
BROKEN = FLEET.replace("every: 1d", "every: 1x")
STATE = """\
agents:
  triage:
    schedules:
      check-issues: { status: idle, last_run_at: "2026-03-26T13:00:00Z", last_error: null }
      standup: { status: disabled, last_run_at: "2026-03-26T08:00:00Z", last_error: it broke }
  gone: { schedules: { daily: { status: idle, last_run_at: "2026-03-26T08:00:00Z" } } }
"""
WORKFLOW = """\
name: report
agent: triage
source: { type: cron, expression: "0 9 * * MON-FRI" }
prompt_template: It is {{fire_time}}.
"""
HINT = "hint queue-depth --every 30s --for 1h --reason watching"
TIDY = "create tidy --command 'find /tmp/scratch -delete' --every 1h"


@dataclass(frozen=True, kw_only=True)
class Case(GoldenScreen):
    """`before` are calls whose output does not matter; `edited` is the content of the file after them."""

    folder = "golden/administration"
    before: tuple[str, ...] = ("apply",)
    edited: str | None = None
    typed: str | None = None
    fleet: str | None = FLEET
    path: str = "/usr/bin:/bin"


CASES = [
    *(Case(name=f"help_{name}", line=f"{name} -h") for name in ("init", "apply", "create", "update", "delete")),
    *(Case(name=f"help_{name}", line=f"{name} -h") for name in ("doctor", "state", "service")),
    Case(name="help_service_install", line="service install -h"),
    Case(name="help_create_wide", line="create -h", columns=200),
    Case(name="init", line="init --template agents", fleet=None, before=()),
    Case(name="init_asked", line="init new", fleet=None, before=(), typed="3\n"),
    Case(name="init_asked_nonsense", line="init", fleet=None, before=(), typed="elephants\n"),
    Case(name="init_nobody", line="init", fleet=None, before=()),
    Case(name="init_there", line="init --template demo", before=()),
    Case(name="init_json", line="init --template commands --json", columns=None, fleet=None, before=()),
    Case(name="apply_first", line="apply --dry-run", before=()),
    Case(name="apply_dry", line="apply --dry-run", before=("apply", HINT), edited=EDITED),
    Case(name="apply_dry_wide", line="apply --dry-run", before=("apply", HINT), edited=EDITED, columns=200),
    Case(name="apply_dry_coloured", line="apply --dry-run", before=("apply", HINT), edited=EDITED, coloured=True),
    Case(name="apply_dry_json", line="apply --dry-run --json", edited=EDITED, columns=None),
    Case(name="apply_exit_code", line="apply --dry-run --exit-code", edited=EDITED, columns=None),
    Case(name="apply", line="apply", edited=EDITED),
    Case(name="apply_same", line="apply --exit-code --dry-run"),
    Case(name="apply_broken", line="apply", edited=BROKEN, columns=None),
    Case(name="apply_declined", line="apply", edited=EDITED, typed="n\n"),
    Case(name="apply_part", line="apply report.yml"),
    Case(name="create", line=TIDY),
    Case(name="create_existing", line=f"{TIDY} --json", before=("apply", TIDY), columns=None),
    Case(name="create_schedule", line='create triage/evening --cron "0 18 * * *" --prompt "Sum up."'),
    Case(name="create_agent", line="create scribe --runtime command --command ./scribe.sh"),
    Case(name="create_typo", line="create triaje/evening --every 1h"),
    Case(name="create_bad_cron", line='create triage/evening --cron "0 25 * * *"'),
    Case(name="create_two_triggers", line="create triage/evening --every 1h --at 18:00"),
    Case(name="create_json", line=f"{TIDY} --json", columns=None),
    Case(name="update", line="update tidy --every 2h --enabled false", before=("apply", TIDY)),
    Case(name="update_file", line="update triage/standup --every 1h"),
    Case(name="update_nothing", line="update tidy", before=("apply", TIDY)),
    Case(name="delete", line="delete tidy", before=("apply", TIDY)),
    Case(name="delete_schedule", line="delete triage/evening", before=("apply", "create triage/evening --every 1h")),
    Case(name="delete_file", line="delete queue-depth"),
    Case(name="doctor", line="doctor"),
    Case(name="doctor_wide", line="doctor", columns=200),
    Case(name="doctor_coloured", line="doctor", coloured=True),
    Case(name="doctor_json", line="doctor --json", columns=None),
    Case(name="doctor_nothing", line="doctor", fleet=None, before=()),
    Case(name="doctor_broken", line="doctor", fleet=BROKEN, before=()),
    Case(name="state", line="state"),
    Case(name="state_json", line="state --json", columns=None),
    Case(name="state_never", line="state", before=()),
    Case(name="state_import", line="state --import state.yaml", before=()),
    Case(name="state_import_dry", line="state --import state.yaml --dry-run", before=()),
    Case(name="state_import_missing", line="state --import nowhere.yaml", columns=None),
    Case(name="service_print", line="service install --print", columns=None, path="/nowhere"),
    Case(name="service_install", line="service install", columns=None, path="/nowhere"),
    Case(name="service_status", line="service status --json", columns=None, path="/nowhere"),
    Case(name="up_state_dir", line="up --state-dir x"),
    Case(name="up_demo_nowhere", line="up --demo --state-dir herdbeat.yaml", columns=None),
    Case(name="up_demo_config", line="up --demo -c x"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_matches_the_golden_file(case: Case, cli: CommandLine, tmp_path: Path) -> None:
    folder = told(case, cli, tmp_path / "my-fleet")

    answer = case.run(cli)

    text = anywhere(case.transcript(answer), folder)
    assert text == case.golden(text)


def told(case: Case, cli: CommandLine, folder: Path) -> Path:
    """The folder after the calls of the case."""
    folder.mkdir()
    cli.folder = folder
    cli.environ |= {"HOME": str(folder), "USER": "you", "PATH": case.path}
    (folder / "state.yaml").write_text(STATE, encoding="utf-8")
    (folder / "report.yml").write_text(WORKFLOW, encoding="utf-8")
    if case.fleet is not None:
        (folder / "herdbeat.yaml").write_text(case.fleet, encoding="utf-8")
    for line in case.before:
        assert cli.run(*shlex.split(line)).status == 0
    if case.edited is not None:
        (folder / "herdbeat.yaml").write_text(case.edited, encoding="utf-8")
    cli.typed = case.typed
    return folder


@pytest.mark.parametrize("line", ["delete queue-depth", "create triage/standup --every 1h"])
def test_a_refusal_while_nothing_runs_is_immediate(
    line: str, cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal was mistaken for a held lock, and the command was retried for five seconds."""
    told(Case(name="", line=line), cli, tmp_path / "my-fleet")
    waits: list[float] = []
    monkeypatch.setattr("herdbeat.service.commands.dispatch.time.sleep", waits.append)

    answer = cli.run(*shlex.split(line))

    assert (answer.status, waits) == (1, [])


def test_every_golden_file_belongs_to_a_case() -> None:
    assert unmatched_files(CASES) == set()


@pytest.mark.parametrize("case", [case for case in CASES if case.columns], ids=lambda case: case.name)
def test_lines_fit_the_screen(case: Case) -> None:
    assert case.wide_lines() == []


def anywhere(text: str, folder: Path) -> str:
    """Remove what differs between machines: paths, the clock, and the size of the ledger on disk."""
    text = text.replace(str(folder), "/my-fleet").replace(sys.executable, "/usr/bin/python")
    text = re.sub(r"(clock +)[^\n]*(\n {4,}[^\n]*)*", r"\1zone data 2026a", text)
    text = re.sub(r'("about": "clock",\n +"text": ")[^"]*("[^}]*)', r"\1zone data 2026a\2", text)
    return re.sub(r"WAL, [0-9.]+ MB, schema [0-9]+", "WAL, 0.1 MB, schema 7", text)
