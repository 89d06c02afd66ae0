"""What `doctor` says about the CLIs of agents: version, login, and what an agent without isolation can do."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.errors import describe_extra
from herdbeat.service.maintenance.doctor import DoctorFinding
from herdbeat.service.maintenance.doctor.agents import check_agents

CLI = """#!/bin/sh
case "$1 $2" in
  "--version ") echo "2.1.197 (Claude Code)" ;;
  "auth status") [ -e logged-in ] || { echo "Not logged in" >&2; exit 1; } ;;
esac
"""


def check(folder: Path, script: str = CLI, **environ: str) -> list[DoctorFinding]:
    program = folder / "claude"
    program.write_text(script.replace("logged-in", str(folder / "logged-in")), encoding="utf-8")
    program.chmod(0o755)
    spec = AgentSpec(runtime="claude", working_directory=".", program="./claude")
    targets = (Target(name="a", spec=spec),)
    server = ServerSettings(host="127.0.0.1", port=1)
    fleet = Fleet(
        name="f", zone=ZoneInfo("UTC"), store="", server=server, home=str(folder), targets=targets, schedules=()
    )
    return list(check_agents(fleet, {"PATH": "/usr/bin:/bin", **environ}))


def test_a_cli_that_is_logged_in_is_reported_with_its_version(tmp_path: Path) -> None:
    (tmp_path / "logged-in").touch()

    first, isolation = check(tmp_path)

    assert (first.subject, first.level, first.text) == ("claude", "well", "2.1.197 (Claude Code)")
    assert isolation.subject == "isolation"


def test_a_cli_that_is_not_logged_in_is_a_problem_with_its_fix(tmp_path: Path) -> None:
    first, _ = check(tmp_path)

    assert (first.level, first.text) == ("problem", "2.1.197 (Claude Code); not logged in: Not logged in: a will fail")
    assert "ANTHROPIC_API_KEY" in first.fix
    assert "/login" in first.fix


def test_agents_without_the_extra_mcp_are_a_warning_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    *_, last = check(tmp_path, ANTHROPIC_API_KEY="sk-1")

    assert (last.subject, last.level, last.fix) == ("mcp", "warning", describe_extra("mcp"))


def test_a_login_variable_is_a_login(tmp_path: Path) -> None:
    first, _ = check(tmp_path, ANTHROPIC_API_KEY="sk-1")

    assert first.level == "well"


def test_a_broken_cli_is_a_problem(tmp_path: Path) -> None:
    first, _ = check(tmp_path, "#!/bin/sh\nexit 127\n")

    assert (first.level, first.fix) == ("problem", f"Run it yourself: {tmp_path}/claude --version")
