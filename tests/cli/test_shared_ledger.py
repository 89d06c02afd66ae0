"""Commands on a machine without a node, while nodes elsewhere share the ledger, or none does."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.postgres_nodes import ManualNode, open_nodes, set_clock

from herdbeat.domain.ids import format_short_id
from herdbeat.store.location import PostgresLocation, open_shared_store
from herdbeat.testing.command_line import CommandLine
from herdbeat.timestamps import parse_timestamp

FLEET = """\
version: 1
fleet: {{ name: barn }}
store: {url}
commands:
  - {{ name: milk, command: ["true"], every: 1h }}
  - {{ name: train, command: ["true"], every: 1h, runs_on: gpu }}
"""
AHEAD = timedelta(minutes=10)


@pytest.fixture
def barn(cli: CommandLine, database: PostgresLocation) -> CommandLine:
    """A laptop whose clock is ten minutes ahead, and a fleet that was applied to the database."""
    (cli.folder / "herdbeat.yaml").write_text(FLEET.format(url=database.url))
    set_clock(database, there(cli))
    assert cli.run("apply").status == 0
    return cli


@pytest.fixture
def node(barn: CommandLine, database: PostgresLocation) -> Iterator[ManualNode]:
    """A live node on a host called `here`."""
    with open_nodes(database, 1) as (found,):
        found.join(there(barn))
        yield found


def there(cli: CommandLine) -> datetime:
    """Return the time of the database."""
    return cli.clock.now() - AHEAD


def test_a_pause_from_a_laptop_that_is_ahead_uses_the_database_time(barn: CommandLine) -> None:
    assert barn.run("pause", "milk", "--for", "1h").status == 0

    (shown,) = barn.run("list", "milk", "--json").json()["items"]

    assert parse_timestamp(shown["paused_until"]) == there(barn) + timedelta(hours=1)


def test_a_first_run_applied_from_a_laptop_that_is_ahead_uses_the_database_time(barn: CommandLine) -> None:
    answer = barn.run("explain", "milk", "--json").json()

    assert parse_timestamp(answer["next_run_at"]) == there(barn)


def test_the_change_log_has_the_database_time(barn: CommandLine) -> None:
    barn.run("disable", "milk")

    newest = barn.run("changes", "--json").json()["items"][0]

    assert parse_timestamp(newest["at"]) == there(barn)


def test_without_a_node_a_change_reports_that_it_waits_for_one(barn: CommandLine) -> None:
    paused = barn.run("pause", "milk")

    assert paused.err.strip() == "No node runs this fleet. Saved; takes effect at the next start: herdbeat up"


@pytest.mark.usefixtures("node")
def test_with_a_node_elsewhere_a_change_takes_effect_at_once(barn: CommandLine) -> None:
    paused, applied = barn.run("pause", "milk"), barn.run("resume", "milk", "--json")

    assert paused.err == ""
    assert applied.json()["served"] is True


@pytest.mark.usefixtures("node")
def test_apply_reports_which_nodes_execute_it(barn: CommandLine, database: PostgresLocation) -> None:
    (barn.folder / "herdbeat.yaml").write_text(FLEET.format(url=database.url).replace("every: 1h }", "every: 2h }"))

    applied = barn.run("apply")

    assert "1 changed.\n1 node (here) runs this fleet; the change is in effect now." in applied.err


@pytest.mark.usefixtures("node")
def test_status_reports_the_number_of_nodes_and_their_hosts(barn: CommandLine) -> None:
    shown, answer = barn.run("status"), barn.run("status", "--json").json()

    assert "(1 node: here)" in shown.out
    assert answer["scheduler"]["nodes"] == 1


def test_a_fleet_with_only_workerless_nodes_is_not_reported_as_running(
    barn: CommandLine, database: PostgresLocation
) -> None:
    with open_nodes(database, 1) as (watcher,):
        watcher.join(there(barn), works=False)

        status, listed, doctor = barn.run("status"), barn.run("nodes"), barn.run("doctor")

    assert "1 node up, all with --no-workers" in status.out
    assert "All nodes have --no-workers, so nothing runs." in listed.err
    assert "none of the nodes runs beats" in doctor.out


def test_a_label_that_an_older_node_has_is_found(barn: CommandLine, database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (older, newer):
        older.join(there(barn), labels=("gpu",))
        newer.join(there(barn))

        text = barn.run("explain", "train", "--json").json()["text"]

    assert "gpu" not in text


@pytest.mark.usefixtures("node")
def test_a_label_that_no_node_has_is_why_its_beats_are_skipped(barn: CommandLine) -> None:
    text = barn.run("explain", "train", "--json").json()["text"]

    assert 'no live node has the label "gpu", and its beats are skipped' in text


def test_a_node_that_has_left_is_shown_for_an_hour_and_later_with_all(
    barn: CommandLine, node: ManualNode, database: PostgresLocation
) -> None:
    node.store.write_now(lambda tx: tx.leave_node(node.joined.node_id, there(barn)))
    soon = barn.run("nodes", "--json").json()["items"]
    set_clock(database, there(barn) + timedelta(hours=2))

    later, all_of_them = barn.run("nodes", "--json").json()["items"], barn.run("nodes", "--all", "--json").json()

    assert [each["state"] for each in soon] == ["left"]
    assert later == []
    assert [each["state"] for each in all_of_them["items"]] == ["left"]


def test_doctor_reports_a_wrong_local_clock_and_files_that_were_not_applied(
    barn: CommandLine, database: PostgresLocation
) -> None:
    (barn.folder / "herdbeat.yaml").write_text(FLEET.format(url=database.url).replace("every: 1h }", "every: 2h }"))

    found = {each["about"]: each["text"] for each in barn.run("doctor", "--json").json()["items"]}

    assert found["time"] == "this machine is 10m ahead of the database; the database's time is used"
    assert (
        found["files"] == "These files differ from the applied configuration: 1 to change. Nodes run the applied one."
    )


def test_a_database_without_a_fleet_reports_that_the_files_are_not_applied_yet(
    cli: CommandLine, database: PostgresLocation
) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET.format(url=database.url))

    found = {each["about"]: each["text"] for each in cli.run("doctor", "--json").json()["items"]}

    assert found["files"].startswith("No configuration has been applied to this database yet, so nothing runs.")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://who:s3c/ret@127.0.0.1:1/fleet",
        "postgresql://who:s3c?ret@127.0.0.1:1/fleet",
        "postgresql://who:s3cret@127.0.0.1:99999999/fleet",
        "postgresql://who:s3c%zzret@127.0.0.1:1/fleet",
        "postgresql://who:s3cret@127.0.0.1:1/fleet",
    ],
)
@pytest.mark.parametrize("words", [["status"], ["doctor"], ["nodes"], ["pause", "milk"], ["up"], ["db", "check"]])
def test_no_message_contains_the_password_of_the_store_address(cli: CommandLine, url: str, words: list[str]) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET.format(url=f'"{url}"'))

    printed = cli.run(*words)

    assert printed.status != 0
    assert "s3c" not in printed.out + printed.err
    assert "Traceback" not in printed.err


def test_logs_of_a_run_on_another_node_name_that_node(barn: CommandLine, node: ManualNode) -> None:
    claim = next(each for each in node.claim(there(barn)).claims if each.label == "milk/default")

    shown = barn.run("logs", format_short_id(claim.run_id))

    printed = f"milk {format_short_id(claim.run_id)} runs on here (pid 1); its output arrives here every few seconds.\n"
    assert printed in shown.err


def test_a_manual_run_is_refused_while_another_node_uses_the_slot(barn: CommandLine, node: ManualNode) -> None:
    node.claim(there(barn))

    refused = barn.run("run", "milk")

    assert refused.status == 1
    assert "refused: at_capacity (1 of 1 running)" in refused.err


def test_without_any_node_there_is_nothing_to_wait_for(barn: CommandLine) -> None:
    refused, written = barn.run("run", "milk", "--wait"), barn.run("run", "milk")

    assert "No node is running, so --wait cannot be used." in refused.err
    assert "is saved; it starts when the fleet runs: herdbeat up" in written.out


def test_a_pause_with_cancel_running_records_a_stop_request_for_the_owning_node(
    barn: CommandLine, node: ManualNode
) -> None:
    claim = next(each for each in node.claim(there(barn)).claims if each.label == "milk/default")

    barn.run("pause", "milk", "--cancel-running")

    shared = open_shared_store(node.store)
    assert shared is not None
    asked = shared.list_stop_requests(node.joined.node_id)
    shared.close()
    assert [each.run_id for each in asked] == [claim.run_id]
    assert "(pause)" in asked[0].why


def test_a_schedule_that_is_not_applied_yet_is_reported_differently_from_an_unknown_one(
    barn: CommandLine, database: PostgresLocation
) -> None:
    more = '  - { name: brush, command: ["true"], every: 1h }\n'
    (barn.folder / "herdbeat.yaml").write_text(FLEET.format(url=database.url) + more)

    printed = [barn.run("explain", "brush"), barn.run("pause", "brush")]

    for each in printed:
        assert '"brush" is in the configuration, but not in the ledger yet.' in each.err
        assert "Apply it: herdbeat apply" in each.err


def test_equal_files_in_another_folder_are_not_reported_as_changed(barn: CommandLine, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "herdbeat.yaml").write_text((barn.folder / "herdbeat.yaml").read_text())

    items = replace(barn, folder=second).run("doctor", "--json").json()["items"]

    assert not [each["text"] for each in items if each["about"] == "files"]
