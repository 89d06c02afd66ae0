"""Programs as a work source: what they print and get, their exit status, deadlines, limits, hostile texts."""

import json
import os
import signal
import stat
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_github import NOW

from herdbeat.domain.work_item import Report
from herdbeat.work import command
from herdbeat.work.base import (
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    WorkClaim,
    WorkSourceFailed,
    build_item,
)
from herdbeat.work.command import CommandSettings, CommandSource

ITEM = build_item("7", title="Fix it", body="Now.", labels=["bug"], metadata={"team": "core"})
CLAIM = WorkClaim(item=ITEM, run_marker="m1", claimed_at=NOW)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


def printing(text: str) -> CommandSource:
    return CommandSource(CommandSettings(list_argv=python(f"print({text!r})")))


def exiting(status: int, **options: Any) -> CommandSource:
    argv = python(
        f"import sys; sys.stdin.read(); print('no token ghp_abcdefghijklmn', file=sys.stderr); sys.exit({status})"
    )
    return CommandSource(
        CommandSettings(list_argv=argv, claim_argv=argv, report_argv=argv, release_argv=argv, **options)
    )


async def test_json_lines_become_items() -> None:
    lines = '{"id": 7, "title": "Fix", "labels": ["a"], "metadata": {"n": 1}, "other": 0}\n\n{"id": "x/1"}\n{"id": 7}'

    items = await printing(lines).list()

    assert [(item.id, item.title, item.priority) for item in items] == [
        ("7", "Fix", "medium"),
        ("x/1", "x/1", "medium"),
    ]
    assert (items[0].labels, items[0].metadata) == (("a",), {"n": "1"})


async def test_a_line_separator_inside_of_a_title_does_not_end_its_line() -> None:
    """`jq` prints U+2028 as it is."""
    items = await printing('{"id": 1, "title": "a\u2028b\u0085c"}\r\n{"id": 2}').list()

    assert [(item.id, item.title) for item in items] == [("1", "a\u2028b\u0085c"), ("2", "2")]


async def test_an_array_will_do() -> None:
    items = await printing('[{"id": "bd-1", "title": "A", "description": "B", "priority": 0}]').list()

    assert [(item.id, item.body, item.priority) for item in items] == [("bd-1", "B", "0")]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("nonsense", 'Line 1 is not JSON: "nonsense"'),
        ('{"id": 1}\n[1', "Line 2 is not JSON"),
        ('{"title": "x"}', 'There is no "id" in entry 1 of list'),
        ('{"id": true}', 'There is no "id"'),
        ("5", 'There is no "id"'),
        ('{"id": "a\\nb"}', "is not one line"),
        ('{"id": "' + "x" * 201 + '"}', "is not one line"),
        ("[" * 100_000, "Line 1 is not JSON"),
    ],
)
async def test_other_output_is_an_error_that_says_where(output: str, message: str) -> None:
    with pytest.raises(WorkSourceFailed) as caught:
        await printing(output).list()

    assert message in caught.value.message
    assert caught.value.cause is FailureCause.INVALID_ANSWER


async def test_a_list_has_at_most_a_thousand_items() -> None:
    code = "for n in range(5000): print('{\"id\": %d}' % n)"

    items = await CommandSource(CommandSettings(list_argv=python(code))).list()

    assert len(items) == 1_000


async def test_the_exit_status_decides_about_a_claim() -> None:
    assert (await exiting(0).claim(ITEM, "m1")).status is ClaimStatus.CLAIMED
    assert (await exiting(3).claim(ITEM, "m1")).status is ClaimStatus.LOST
    assert await exiting(3).release(CLAIM) is ReleaseStatus.NOT_OURS
    assert await exiting(0).release(CLAIM) is ReleaseStatus.RELEASED
    with pytest.raises(WorkSourceFailed, match="The command for claim ended with status 1: no token") as caught:
        await exiting(1).claim(ITEM, "m1")
    assert "ghp_" not in caught.value.message
    for failing in (exiting(3).list(), exiting(3).report(CLAIM, Report(succeeded=True))):
        with pytest.raises(WorkSourceFailed, match="status 3"):
            await failing


async def test_a_verb_gets_the_item_its_marker_and_the_result(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    argv = python(f"import sys; open({str(seen)!r}, 'a').write(sys.stdin.read())")
    source = CommandSource(CommandSettings(list_argv=argv, claim_argv=argv, report_argv=argv, release_argv=argv))

    await source.claim(ITEM, "m1")
    await source.report(CLAIM, Report(succeeded=False, error="Broke.", attempt=1, max_attempts=2))
    await source.release(CLAIM)

    claim, report, release = (json.loads(line) for line in seen.read_text().splitlines())
    assert (claim["id"], claim["title"], claim["labels"], claim["run_marker"]) == ("7", "Fix it", ["bug"], "m1")
    assert (report["run_marker"], report["result"]["outcome"], report["result"]["offers_again"]) == (
        "m1",
        "failed",
        True,
    )
    assert (release["metadata"], release["is_confirmed"]) == ({"team": "core"}, True)


async def test_a_claim_may_print_the_item_as_it_is_now() -> None:
    fresh = python("""print('{"id": "7", "title": "Newer"}')""")
    other = python("""print('{"id": "8"}')""")

    result = await CommandSource(CommandSettings(list_argv=fresh, claim_argv=fresh)).claim(ITEM, "m1")

    assert result.item is not None
    assert result.item.title == "Newer"
    with pytest.raises(WorkSourceFailed, match="another item"):
        await CommandSource(CommandSettings(list_argv=fresh, claim_argv=other)).claim(ITEM, "m1")


async def test_without_a_claim_the_store_alone_remembers() -> None:
    source = printing("")

    assert source.claims_remotely is False
    assert (await source.claim(ITEM, "m1")).status is ClaimStatus.CLAIMED
    await source.report(CLAIM, Report(succeeded=True))
    assert await source.release(CLAIM) is ReleaseStatus.RELEASED


async def test_a_verb_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    argv = ("/bin/sh", "-c", f"trap '' TERM; sleep 600 & echo $$ $! > {pids}; wait")
    environment = {"PATH": os.environ["PATH"]}
    source = CommandSource(CommandSettings(list_argv=argv, timeout=timedelta(seconds=5), environment=environment))

    with pytest.raises(WorkSourceFailed, match="did not end in 5 s") as caught:
        await source.list()

    assert caught.value.cause is FailureCause.TIMEOUT
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert wait_gone(started)


def wait_gone(pids: list[int]) -> bool:
    """True once none of the processes runs: a killed one may be a zombie of init for a moment."""
    for _ in range(500):
        if not any(is_running(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def test_what_a_program_leaves_behind_delays_nobody() -> None:
    code = (
        "import os, time\npid = os.fork()\n"
        "if pid == 0:\n    os.setsid(); time.sleep(300)\nelse:\n    print('{\"id\": %d}' % pid)"
    )

    items = await CommandSource(CommandSettings(list_argv=python(code))).list()

    left = int(items[0].id)
    assert is_running(left), "the answer did not wait for it"
    os.kill(left, signal.SIGKILL)


async def test_a_flood_of_output_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_OUTPUT_BYTES", 1_000_000)
    code = "while True: print('x' * 100000)"

    with pytest.raises(WorkSourceFailed, match="printed more than") as caught:
        await CommandSource(CommandSettings(list_argv=python(code))).list()

    assert caught.value.cause is FailureCause.INVALID_ANSWER


@pytest.mark.parametrize("argv", [("/no/such/program",), ("a\0b",)])
async def test_a_program_that_cannot_be_started_is_a_config_error(argv: tuple[str, ...]) -> None:
    with pytest.raises(WorkSourceFailed, match="cannot be started") as caught:
        await CommandSource(CommandSettings(list_argv=argv)).list()

    assert caught.value.cause is FailureCause.CONFIG


async def test_hostile_texts_reach_a_program_only_on_its_stdin(tmp_path: Path) -> None:
    seen, hostile = tmp_path / "seen", "--help; $(touch /tmp/x) {{a}} \x1b[31m\n" + "y" * 150_000
    script = tmp_path / "verb"
    script.write_text(f'#!/bin/sh\necho "$#" > {seen}\ncat >> {seen}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    item = build_item("--id", title=hostile, body=hostile)
    environment = {"PATH": os.environ["PATH"]}
    source = CommandSource(CommandSettings(list_argv=("true",), claim_argv=(str(script),), environment=environment))

    await source.claim(item, "m1")

    count, data = seen.read_text().split("\n", 1)
    assert count == "0"
    assert (json.loads(data)["id"], json.loads(data)["body"]) == ("--id", hostile)


async def test_only_the_given_environment_reaches_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_NODE", "hunter2")
    code = "import json, os; print(json.dumps({'id': 1, 'body': ' '.join(os.environ)}))"
    source = CommandSource(CommandSettings(list_argv=python(code), environment={"ONLY": "this"}))

    assert set((await source.list())[0].body.split()) <= {"ONLY", "LC_CTYPE"}


def test_a_source_without_a_list_is_a_config_error() -> None:
    with pytest.raises(WorkSourceFailed, match="needs the argv of list"):
        CommandSettings(list_argv=())
