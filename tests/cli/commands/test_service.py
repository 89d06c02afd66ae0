"""The fleet as a service: the unit file, and the calls of systemctl, which a small script replaces."""

from pathlib import Path
from shutil import which

import pytest

from herdbeat.testing.command_line import CommandLine

FLEET = "version: 1\nfleet: { name: my fleet }\ncommands: [{ name: a, command: [ls], every: 5m }]\n"
FAKE = """\
#!{shell}
echo "$@" >> {log}
[ "$2" = "{refuses}" ] && exit 1
[ "$2" = is-active ] && echo active
exit 0
"""


class Systemd:
    """A folder with a fleet, and a `systemctl` that records its arguments."""

    def __init__(self, cli: CommandLine, refuses: str = "nothing") -> None:
        self.cli = cli
        self.log = cli.folder / "asked"
        self.unit = cli.folder / "config" / "systemd" / "user" / "herdbeat-my-fleet.service"
        (cli.folder / "herdbeat.yaml").write_text(FLEET)
        programs = cli.folder / "bin"
        programs.mkdir()
        fake = programs / "systemctl"
        fake.write_text(FAKE.format(shell=which("sh"), log=self.log, refuses=refuses))
        fake.chmod(0o755)
        cli.environ |= {"PATH": str(programs), "XDG_CONFIG_HOME": str(cli.folder / "config")}

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def test_a_service_is_installed_started_and_enabled(cli: CommandLine) -> None:
    systemd = Systemd(cli)

    answer = cli.run("service", "install")

    assert answer.status == 0
    assert "ExecStart=/" in systemd.unit.read_text()
    assert systemd.asked[1:] == ["--user daemon-reload", "--user enable --now herdbeat-my-fleet.service"]
    assert "undo: herdbeat service remove" in answer.out


def test_an_error_of_systemd_names_where_to_look(cli: CommandLine) -> None:
    Systemd(cli, refuses="enable")

    answer = cli.run("service", "install")

    assert (answer.status, "systemctl --user status herdbeat-my-fleet.service" in answer.err) == (1, True)


def test_without_a_service_manager_there_is_a_hint(cli: CommandLine) -> None:
    systemd = Systemd(cli, refuses="show-environment")

    answer = cli.run("service", "install")

    assert answer.status == 0
    assert systemd.unit.exists()
    assert "systemctl --user enable --now" in answer.err


def test_only_a_service_of_herdbeat_is_removed(cli: CommandLine) -> None:
    systemd = Systemd(cli)
    cli.run("service", "install")
    removed, again = cli.run("service", "remove"), cli.run("service", "remove")

    systemd.unit.write_text("[Unit]\nDescription=somebody else's\n")
    refused = [cli.run("service", "remove"), cli.run("service", "install")]
    forced = cli.run("service", "install", "--force")

    assert (removed.status, again.status, "No change" in again.err) == (0, 0, True)
    assert [answer.status for answer in refused] == [1, 1]
    assert forced.status == 0


def test_the_status_reports_whether_the_service_runs_and_is_up_to_date(cli: CommandLine) -> None:
    systemd = Systemd(cli)
    before = cli.run("service", "status", "--json").json()
    cli.run("service", "install")

    now = cli.run("service", "status", "--json").json()
    systemd.unit.write_text(systemd.unit.read_text() + "# edited\n")
    edited = cli.run("service", "status")

    assert (before["installed"], before["state"]) == (False, "not installed")
    assert (now["installed"], now["state"], now["up_to_date"]) == (True, "active", True)
    assert "The unit is out of date" in edited.err


@pytest.mark.parametrize(
    ("folder", "written"),
    [("a b", '"{0}/a b/herdbeat.yaml"'), ("50%", '"{0}/50%%/herdbeat.yaml"'), ("$x", '"{0}/$$x/herdbeat.yaml"')],
)
def test_odd_paths_are_written_as_systemd_reads_them(cli: CommandLine, folder: str, written: str) -> None:
    home = cli.folder
    cli.folder = home / folder
    cli.folder.mkdir()
    (cli.folder / "herdbeat.yaml").write_text(FLEET)

    answer = cli.run("service", "install", "--print")

    assert f"--config {written.format(home)}\n" in answer.out
    assert Path(home, folder, ".config").exists() is False


def test_a_dollar_in_path_is_not_doubled(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET)
    cli.environ["PATH"] = "/opt/$tools/bin:/usr/bin"

    answer = cli.run("service", "install", "--print")

    assert 'Environment="PATH=/opt/$tools/bin:/usr/bin"\n' in answer.out


def test_a_line_break_in_the_name_of_a_fleet_adds_no_line_to_its_unit(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET.replace("my fleet", '"mine\\nExecStartPre=rm"'))

    answer = cli.run("service", "install", "--print")

    assert "Description=herdbeat: mine ExecStartPre=rm\n" in answer.out
