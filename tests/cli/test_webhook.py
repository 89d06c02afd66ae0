"""`herdbeat webhook test` and `webhook refused`, on the fleet of the server's tests."""

import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.test_hooks import SECRETS, HookedFleet

from herdbeat.bootstrap.config import LEDGER_FILE_NAME
from herdbeat.domain.webhook_call import RefusedCall
from herdbeat.service.webhooks.refused_calls import RefusedCalls, save_refused_calls
from herdbeat.testing.command_line import CommandLine


def command_line(folder: Path, hooked: HookedFleet, **environ: str) -> CommandLine:
    return CommandLine(folder=folder, clock=hooked.clock, environ={"TZ": "UTC", "USER": "you", **environ})


def test_a_dry_run_prints_a_signed_call_without_the_secret(tmp_path: Path) -> None:
    cli = command_line(tmp_path, HookedFleet(tmp_path), **SECRETS)

    result = cli.run("webhook", "test", "devops/github", "-d", "Hello, World!", "--dry-run")

    assert result.status == 0
    assert "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" in result.out
    assert "/hooks/devops/github" in result.out
    assert SECRETS["HOOK_SECRET"] not in result.out + result.err


def paste(hooked: HookedFleet, printed: str) -> int:
    """Send what a printed curl command would send, and return the status of the answer."""
    words = shlex.split(printed.splitlines()[0])
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    body = words[words.index("--data-binary") + 1]
    return hooked.client.send("POST", urlsplit(words[3]).path, body.encode(), headers).status


@pytest.mark.parametrize("preset", ["github", "linear", "pagerduty", "sentry", "slack", "standard", "stripe"])
def test_a_printed_call_is_accepted_every_time_and_from_every_sender(tmp_path: Path, preset: str) -> None:
    """Linear's had no time in its body and was refused; the second one of GitHub and others was a replay."""
    fleet = f"""\
version: 1
agents:
  - name: devops
    runtime: command
    command: ["true"]
    schedules:
      hook: {{ type: webhook, prompt: go, auth: {{ preset: {preset}, secret_env: NEW_SECRET }} }}
"""
    hooked = HookedFleet(tmp_path, fleet)
    cli = command_line(tmp_path, hooked, **SECRETS)

    statuses = [paste(hooked, cli.run("webhook", "test", "devops/hook", "--dry-run").out) for _ in range(2)]
    with_body = cli.run("webhook", "test", "devops/hook", "-d", '{"action": "create"}', "--dry-run").out

    assert statuses == [202, 202]
    assert paste(hooked, with_body) == 202
    assert '"action": "create"' in with_body


def test_a_secret_that_is_not_set_is_named(tmp_path: Path) -> None:
    cli = command_line(tmp_path, HookedFleet(tmp_path))

    result = cli.run("webhook", "test", "devops/github")

    assert result.status == 3
    assert "HOOK_SECRET is not set" in result.err


def test_a_schedule_of_another_kind_cannot_be_called(tmp_path: Path) -> None:
    result = command_line(tmp_path, HookedFleet(tmp_path)).run("webhook", "test", "devops/clock")

    assert result.status == 2
    assert "takes no webhook calls" in result.err


def test_refused_calls_are_listed_from_the_file_of_the_server(tmp_path: Path) -> None:
    hooked = HookedFleet(tmp_path)
    call = RefusedCall(
        at=hooked.clock.now(), schedule="devops/github", peer="192.0.2.7", size=15, status=401, reason="not_proven"
    )
    calls = RefusedCalls()
    calls.add(call)
    save_refused_calls(hooked.state_dir / LEDGER_FILE_NAME, calls.take_unsaved())
    cli = command_line(tmp_path, hooked)

    assert "192.0.2.7" in cli.run("webhook", "refused").out
    assert "No webhook call was refused" in cli.run("webhook", "refused", "other").err
