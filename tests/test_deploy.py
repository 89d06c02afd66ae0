"""What `deploy/` ships: the files parse, name files that exist, and run commands that the program has."""

import json
import shlex
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from herdbeat.cli.parser import parse_args
from herdbeat.cli.spec import CliCommand
from herdbeat.cli.table import COMMANDS
from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
CLOCK = FakeClock(datetime(2026, 3, 2, 8, 0, tzinfo=UTC))
STORE = {"HERDBEAT_STORE": "postgresql://herd@database/fleet"}


def find_command(name: str) -> CliCommand:
    return next(command for command in COMMANDS if command.name == name)


def dockerfile_instructions() -> dict[str, str]:
    """The last of each instruction, as the builder takes it."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    instructions = "\n".join(lines).replace("\\\n", " ").splitlines()
    return {word: rest.strip() for word, _, rest in (line.partition(" ") for line in instructions)}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_image_runs_herdbeat_and_any_command_after_it() -> None:
    instructions = dockerfile_instructions()

    assert json.loads(instructions["ENTRYPOINT"]) == ["herdbeat"]
    assert parse_args(json.loads(instructions["CMD"])).command is find_command("up")


def test_the_health_check_of_the_image_is_a_command_of_the_program() -> None:
    _, _, command = dockerfile_instructions()["HEALTHCHECK"].partition("CMD ")

    program, *words = json.loads(command)

    assert program == "herdbeat"
    assert parse_args(words).command is find_command("nodes")


@pytest.mark.parametrize("node", ["first", "second"])
def test_the_nodes_of_the_compose_file_start_without_a_shell(node: str) -> None:
    service = compose()["services"][node]

    assert "entrypoint" not in service
    assert parse_args(service["command"]).command is find_command("up")
    assert service["environment"]["PGPASSFILE"] == f"/run/secrets/{service['secrets'][0]}"


def test_every_file_that_the_compose_file_names_is_there_or_is_ignored_by_git() -> None:
    described = compose()
    services = described["services"]
    mounted = [volume.split(":")[0] for each in services.values() for volume in each.get("volumes", ())]

    for node in ("first", "second"):
        build = services[node]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    assert all((DEPLOY / path).is_file() for path in mounted if path.startswith("./"))
    assert all(path in described["volumes"] for path in mounted if not path.startswith("./"))
    for secret in described["secrets"].values():
        ignored = subprocess.run(["git", "check-ignore", "-q", str(DEPLOY / secret["file"])], cwd=ROOT, check=False)
        assert ignored.returncode in (0, 128)  # 128: not in a checkout


def test_the_secrets_that_services_use_are_declared() -> None:
    described = compose()

    used = {name for service in described["services"].values() for name in service.get("secrets", ())}

    assert used == set(described["secrets"])


def test_what_the_image_copies_is_not_kept_out() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    kept = [line[1:] for line in lines if line.startswith("!")]

    assert kept
    assert all((ROOT / name).exists() for name in kept)


def test_the_fleet_of_the_compose_file_has_no_warning() -> None:
    answer = CommandLine(folder=DEPLOY / "fleet", clock=CLOCK, environ=STORE).run("validate", "--strict")

    assert (answer.status, answer.err) == (0, "")


def test_the_unit_for_systemd_runs_a_command_of_the_program() -> None:
    unit = (DEPLOY / "herdbeat@.service").read_text(encoding="utf-8")
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]

    _, program, *words = shlex.split(line.removeprefix("ExecStart="))

    assert program == "herdbeat"
    assert parse_args(words).command is find_command("up")
