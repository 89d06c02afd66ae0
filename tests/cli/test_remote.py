"""`--url`: commands on the server of another machine, over real HTTP, with a real token."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from tests.server.conftest import NOW, ServedFleet

from herdbeat.cli.remote_commands import NOT_REMOTE, REMOTE_COMMANDS
from herdbeat.cli.table import COMMANDS
from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine


class LiveServer:
    """A served fleet that listens, and a command line in another folder that has no fleet."""

    def __init__(self, served: ServedFleet, elsewhere: Path, url: str) -> None:
        self.served = served
        self.url = url
        (elsewhere / "token").write_text(served.token("operate"), encoding="utf-8")
        self.cli = CommandLine(folder=elsewhere, clock=FakeClock(NOW))

        (elsewhere / "admin").write_text(served.token("admin", "root"), encoding="utf-8")

    @property
    def admin(self) -> tuple[str, ...]:
        return ("--url", self.url, "--token-file", "admin")

    @property
    def remote(self) -> tuple[str, ...]:
        return ("--url", self.url, "--token-file", "token")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    served = ServedFleet(tmp_path_factory.mktemp("served"))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(served.app, log_config=None, lifespan="off", loop="asyncio"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield LiveServer(served, tmp_path_factory.mktemp("elsewhere"), f"http://127.0.0.1:{listener.getsockname()[1]}")
    server.should_exit = True
    thread.join()
    served.gateway.close()


def test_a_script_tells_a_refused_token_from_other_failures_by_the_exit_status(live: LiveServer) -> None:
    """Both were 1, like any failure. A wrong value was 1, too, and 2 on the machine itself."""
    (live.cli.folder / "unknown").write_text("hbt_" + "0" * 40, encoding="utf-8")

    unknown = live.cli.run("status", "--url", live.url, "--token-file", "unknown")
    too_little = live.cli.run("token", "list", *live.remote)
    wrong = live.cli.run(
        "create", "queue-depth/x", "--cron", "61 * * * *", "--server", live.url, "--token-file", "token"
    )

    assert (unknown.status, too_little.status, wrong.status) == (4, 4, 2), wrong.err


def test_a_changing_command_changes_the_fleet_there(live: LiveServer) -> None:
    paused = live.cli.run("pause", "backup", "--for", "1h", "--reason", "far away", *live.remote, "--json")
    shown = live.served.cli().run("show", "backup", "--json").json()
    resumed = live.cli.run("resume", "backup", *live.remote)

    assert (paused.status, paused.json()["changed"]) == (0, 1), paused.err
    assert (shown["paused"], shown["paused_by"], shown["paused_reason"]) == (True, "human:token:ci", "far away")
    assert resumed.status == 0
    assert "backup" in resumed.out


def test_a_run_is_started_and_a_hint_is_given_there(live: LiveServer) -> None:
    ran = live.cli.run("run", "triage", "-S", "standup", *live.remote, "--json")
    hinted = live.cli.run("hint", "queue-depth", "--every", "1m", "--for", "10m", *live.remote, "--json")
    other = live.cli.run("hint", "queue-depth", "--clear", "--id", "999999", *live.remote, "--json")
    cleared = live.cli.run("hint", "queue-depth", "--clear", *live.remote, "--json")

    assert [each.status for each in (ran, hinted, cleared)] == [0, 0, 0], ran.err + hinted.err + cleared.err
    assert ran.json()["success"] is True
    assert [each.json()["changed"] for each in (hinted, other, cleared)] == [1, 0, 1]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("show nobody", 3, "nobody"),
        ("cancel 0001", 1, "already ended"),
        ("pause --all", 2, "Confirm with --yes"),
        ("hint backup", 2, "interval or a time"),
    ],
)
def test_what_the_server_refuses_is_said_with_its_hint(live: LiveServer, words: str, status: int, message: str) -> None:
    result = live.cli.run(*words.split(), *live.remote)

    assert result.status == status
    assert message in result.err


@pytest.mark.parametrize(
    ("url", "status", "message"),
    [
        ("http://ops.example.com", 2, "in clear text"),
        ("ops.example.com", 2, "not the address of a server"),
        ("http://127.0.0.1:9", 7, "does not answer"),
    ],
)
def test_an_address_that_cannot_be_used_is_said(live: LiveServer, url: str, status: int, message: str) -> None:
    result = live.cli.run("status", "--url", url, "--token-file", "token")

    assert result.status == status
    assert message in result.err


def test_a_wrong_token_is_refused(live: LiveServer) -> None:
    result = live.cli.run("status", "--url", live.url, HERDBEAT_TOKEN="hbt_wrong")

    assert result.status == 4
    assert "unknown, expired or revoked" in result.err


def test_every_command_with_url_has_its_request() -> None:
    assert {each.name for each in COMMANDS if each.is_remote} == set(REMOTE_COMMANDS)


def test_every_command_is_remote_or_about_this_machine() -> None:
    names = {each.name for each in COMMANDS}

    assert set(REMOTE_COMMANDS) | NOT_REMOTE == names
    assert set(REMOTE_COMMANDS) & NOT_REMOTE == set()


LOOKING = [
    *("status", "list", "list --tag vendor-x", "show triage/issues", "show queue-depth", "show triage", "runs"),
    *("explain triage/standup", "changes", "nodes --all", "show beat:0001", "runs --status failed", "beats triage"),
    *("cost", "sessions", "work --all", "timeline --since 3h", "ack", "hint --list", "hint triage/issues --list"),
    *("runs --since 1h", "beats --since 2026-03-26T10:00:00Z", "changes --since 1d", "pauses", "notify"),
    "planner",
    *("config show", "webhook refused", "token list", "next -n 3", "apply --dry-run"),
    "backfill backup --from 2026-03-20 --until 2026-03-22T12:00:00Z --dry-run --utc",
]


@pytest.mark.parametrize("words", LOOKING)
def test_every_looking_command_prints_the_same_from_another_machine(live: LiveServer, words: str) -> None:
    here = live.served.cli().run(*words.split(), "--json")
    there = live.cli.run(*words.split(), *live.admin, "--json")

    assert (here.status, there.status) == (0, 0), here.err + there.err
    assert there.json() == here.json()


def test_every_looking_command_has_been_compared() -> None:
    compared = {name for name in REMOTE_COMMANDS for words in LOOKING if f"{words} ".startswith(f"{name} ")}

    assert set(REMOTE_COMMANDS) - compared == {
        *("run", "pause", "resume", "enable", "disable", "skip", "reset", "cancel", "retry", "release", "logs"),
        *("create", "update", "delete", "rules test", "token create", "token revoke"),
        "planner show",
    }


def test_a_value_that_the_fleet_does_not_have_was_printed_as_an_empty_line(live: LiveServer) -> None:
    status = live.cli.run("status", *live.remote)

    assert status.status == 0
    assert [line for line in status.out.splitlines() if line.endswith(": ")] == []


def test_the_output_of_runs_is_read_from_there(live: LiveServer) -> None:
    here = live.served.cli().run("logs", "-n", "5", "--jsonl")
    there = live.cli.run("logs", "-n", "5", *live.admin, "--jsonl")
    single = live.cli.run("logs", "0001", "-f", *live.admin)  # it has ended, so following it ends

    assert (there.status, there.out) == (here.status, here.out)
    assert (single.status, "triage/issues 0001" in single.out) == (0, True), single.err


def test_a_schedule_is_created_changed_and_deleted_there(live: LiveServer) -> None:
    server = ("--server", live.url, "--token-file", "admin")
    created = live.cli.run("create", "triage/weekly", "--cron", "0 9 * * 1", "--prompt", "Sum up.", *server, "--json")
    endpoint = live.cli.run("create", "probe", "--url", "https://example.com/", "--every", "5m", *server, "--json")
    updated = live.cli.run("update", "triage/weekly", "--every", "6h", *live.admin, "--json")
    shown = live.cli.run("show", "triage/weekly", *live.admin, "--json").json()
    deleted = [live.cli.run("delete", each, *live.admin).status for each in ("triage/weekly", "probe")]

    assert [each.status for each in (created, endpoint, updated)] == [0, 0, 0], created.err + endpoint.err
    assert (shown["when"], shown["prompt"]) == ("every 6h", "Sum up.")
    assert deleted == [0, 0]


def test_no_program_is_created_from_another_machine(live: LiveServer) -> None:
    server = ("--server", live.url, "--token-file", "admin")

    refused = live.cli.run("create", "evil", "--command", "touch /tmp/owned", "--every", "5m", *server)

    assert refused.status == 2
    assert "--command cannot be used with --url" in refused.err


def test_files_are_applied_there_as_they_are_there(live: LiveServer) -> None:
    applied = live.cli.run("apply", *live.admin, "--json")
    with_path = live.cli.run("apply", "mine.yaml", *live.admin)

    assert (applied.status, applied.json()["applied"]) == (0, True), applied.err
    assert (with_path.status, "its own files" in with_path.err) == (2, True)


@pytest.mark.parametrize("words", ["run backup --wait", "status --check", "status -w", "next --by hour", "status -c x"])
def test_an_option_that_the_server_is_not_asked_with_is_refused(live: LiveServer, words: str) -> None:
    """It was ignored: `run --wait` came back at once, and `status --check` never failed."""
    refused = live.cli.run(*words.split(), *live.remote)

    assert refused.status == 2
    assert "cannot be used with --url" in refused.err


def test_a_token_is_made_and_revoked_from_another_machine(live: LiveServer) -> None:
    made = live.cli.run("token", "create", "far", "--expires", "1d", *live.admin, "--json")
    revoked = live.cli.run("token", "revoke", "far", *live.admin)
    asked = live.cli.run("status", "--url", live.url, HERDBEAT_TOKEN=made.json()["token"])

    assert made.json()["token"].startswith("hbt_")
    assert (revoked.status, asked.status) == (0, 4)


def test_a_new_token_is_shown_to_its_owner_and_works(live: LiveServer) -> None:
    """It was printed as ***, because no screen shows a token of ours."""
    made = live.served.cli().run("token", "create", "laptop", "--scope", "read", "--json").json()
    plain = live.served.cli().run("token", "create", "desk").out.strip()

    asked = [live.cli.run("status", "--url", live.url, HERDBEAT_TOKEN=text) for text in (made["token"], plain)]

    assert [each.status for each in asked] == [0, 0], asked[0].err
    assert live.served.cli().run("list", "--json").status == 0
