"""`herdbeat import` and `herdbeat export` as a user types them."""

import io
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.config.imports.test_apscheduler import JOB

from herdbeat.cli.main import main
from herdbeat.testing.command_line import CommandLine

CRONTAB = "# Backup\n30 2 * * * /opt/backup.sh\n@reboot /opt/start.sh\n*/5 * * * * curl -fL https://example.com/ping\n"


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    file = tmp_path / "my.crontab"
    file.write_text(CRONTAB, encoding="utf-8")
    return file


def test_a_dry_run_prints_the_file_and_writes_nothing(cli: CommandLine, crontab: Path) -> None:
    result = cli.run("import", "crontab", crontab.name, "--dry-run")

    assert result.status == 0
    assert "command: [/bin/sh, -c, /opt/backup.sh]" in result.out
    assert "timezone: Europe/Berlin" in result.out
    assert "✗ my.crontab:3  @reboot has no equivalent" in result.err
    assert list(crontab.parent.iterdir()) == [crontab]


def test_an_import_writes_a_file_that_validates(cli: CommandLine, crontab: Path) -> None:
    result = cli.run("import", "crontab", crontab.name)

    assert result.status == 0
    assert result.lines()[0].endswith("herdbeat.yaml: 1 command, 1 endpoint.")
    assert cli.run("validate").status == 0
    assert "backup" in cli.run("next").out


def test_an_existing_file_is_kept_unless_the_user_says_yes(cli: CommandLine, crontab: Path) -> None:
    file = crontab.parent / "herdbeat.yaml"
    file.write_text("version: 1\n", encoding="utf-8")

    refused = cli.run("import", "crontab", crontab.name)
    declined = replace(cli, typed="n\n").run("import", "crontab", crontab.name)

    assert (refused.status, declined.status) == (1, 1)
    assert "already exists" in refused.err
    assert file.read_text(encoding="utf-8") == "version: 1\n"
    assert replace(cli, typed="y\n").run("import", "crontab", crontab.name).status == 0
    assert "backup" in file.read_text(encoding="utf-8")
    assert cli.run("import", "crontab", crontab.name, "-o", "other.yaml").status == 0
    assert cli.run("import", "crontab", crontab.name, "-o", "other.yaml", "--force").status == 0


def test_json_has_targets_notes_and_the_file(cli: CommandLine, crontab: Path) -> None:
    data = cli.run("import", "crontab", crontab.name, "--dry-run", "--json").json()

    assert data["file"] is None
    place = {"file": "my.crontab", "line": 4}
    assert data["targets"][1] == {"kind": "endpoint", "name": "example-com-ping", "schedules": 1, "from": place}
    assert data["notes"][0]["kind"] == "not_carried"
    assert data["notes"][0]["from"] == {"file": "my.crontab", "line": 3}
    assert data["yaml"].startswith("# Imported by herdbeat from my.crontab.")


def test_a_crontab_is_read_from_standard_input(cli: CommandLine) -> None:
    out, err = io.StringIO(), io.StringIO()

    status = main(
        ("import", "crontab", "-", "--dry-run"),
        out=out,
        err=err,
        environ={},
        clock=cli.clock,
        folder=cli.folder,
        stdin=io.StringIO(CRONTAB),
    )

    assert status == 0
    assert "crontab:2" in out.getvalue()


def test_a_folder_of_crontabs_has_users_and_skips_what_cron_skips(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "cron.d"
    folder.mkdir()
    (folder / "php").write_text("0 1 * * * www-data /usr/bin/php x\n", encoding="utf-8")
    (folder / "php.dpkg-old").write_text("0 2 * * * root /usr/bin/old\n", encoding="utf-8")

    result = cli.run("import", "crontab", "cron.d", "--system", "--dry-run")

    assert "cron.d/php:1" in result.out
    assert "/usr/bin/old" not in result.out
    assert "runs as www-data" in result.err
    assert "php.dpkg-old; it was left out" in result.err


def test_a_timer_is_imported_with_its_service(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "tidy.timer").write_text("[Timer]\nOnCalendar=daily\n", encoding="utf-8")
    (tmp_path / "tidy.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")

    result = cli.run("import", "systemd", "tidy.timer")

    assert result.status == 0
    assert cli.run("validate").status == 0


def test_jobs_of_apscheduler_are_imported(cli: CommandLine, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as database:
        database.execute("CREATE TABLE apscheduler_jobs (id TEXT, next_run_time FLOAT, job_state BLOB)")
        database.execute("INSERT INTO apscheduler_jobs VALUES ('nightly', 1.5, ?)", (JOB,))
        database.commit()

    result = cli.run("import", "apscheduler", "sqlite:///jobs.sqlite")

    assert result.status == 0
    assert cli.run("validate").status == 0
    assert "nightly" in cli.run("next").out


def test_files_of_herdctl_and_agentd_become_one_file(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "herdctl.yaml").write_text("version: 1\nagents: [{ path: agents/a.yaml }]\n", encoding="utf-8")
    schedule = "{ type: interval, interval: 1h, prompt: 'Hi {{x}}' }"
    agent = f"name: a\nworking_directory: .\nschedules: {{ check: {schedule} }}\n"
    (tmp_path / "agents" / "a.yaml").write_text(agent, encoding="utf-8")
    (tmp_path / ".agentd" / "workflows").mkdir(parents=True)
    (tmp_path / ".agentd" / "agents").mkdir()
    (tmp_path / ".agentd" / "agents" / "b.yml").write_text("name: b\n", encoding="utf-8")
    workflow = "name: w\nagent: b\nsource: { type: cron, expression: '0 1 * * *' }\nprompt_template: Go.\n"
    (tmp_path / ".agentd" / "workflows" / "w.yml").write_text(workflow, encoding="utf-8")

    herdctl = cli.run("import", "herdctl", "-o", "one.yaml")
    agentd = cli.run("import", "agentd", "-o", "two.yaml")

    assert (herdctl.status, agentd.status) == (0, 0)
    assert "\\{{x}}" in (tmp_path / "one.yaml").read_text(encoding="utf-8")
    assert "timezone: UTC" in (tmp_path / "two.yaml").read_text(encoding="utf-8")
    assert cli.run("validate", "one.yaml").status == 0
    assert cli.run("validate", "two.yaml").status == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("crontab", "nothing.txt"), 'There is no file "nothing.txt"'),
        (("systemd", "nothing.timer"), '"nothing.timer" is not a timer'),
        (("apscheduler",), "Name one database"),
        (("apscheduler", "nothing.db"), 'There is no file "nothing.db"'),
        (("herdctl",), "There is no herdctl.yaml here"),
        (("agentd",), "There is no .agentd here"),
        (("agentd", "--system"), "--system belongs to herdbeat import crontab"),
        (("jenkins",), 'TOOL cannot be "jenkins"'),
    ],
)
def test_a_wrong_request_is_an_error_with_a_hint(cli: CommandLine, words: tuple[str, ...], message: str) -> None:
    result = cli.run("import", *words)

    assert result.status in (2, 3)
    assert message in result.err
    assert "Traceback" not in result.err


def test_nothing_to_import_is_said_with_the_reason(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("@reboot /bin/x\n", encoding="utf-8")

    result = cli.run("import", "crontab", "empty")

    assert result.status == 2
    assert "nothing to import" in result.err
    assert "@reboot has no equivalent" in result.err


FLEET = """\
version: 1
timezone: Europe/Berlin
defaults: { retry: { attempts: 2 } }
endpoints:
  - { name: health, url: "https://example.com/?key=${API_KEY}", every: 5m }
"""


def test_an_exported_fleet_applies_without_a_change_and_exports_the_same(cli: CommandLine, tmp_path: Path) -> None:
    cli.environ["API_KEY"] = "t0psecret-value"
    file = tmp_path / "herdbeat.yaml"
    file.write_text(FLEET, encoding="utf-8")
    assert cli.run("apply", "-y").status == 0
    assert cli.run("create", "probe", "--command", "echo ${HOME}", "--every", "1h").status == 0
    assert cli.run("create", "health/night", "--cron", "0 1 * * *").status == 0

    exported = cli.run("export")

    assert "t0psecret" not in exported.out + exported.err
    file.write_text(exported.out, encoding="utf-8")
    assert cli.run("validate").status == 0
    plan = cli.run("apply", "--dry-run", "--json").json()
    assert plan["items"] == []
    assert (plan["added"], plan["removed"]) == (0, 0)
    cli.run("apply", "-y")
    assert cli.run("apply", "--dry-run", "--exit-code").status == 0
    again = cli.run("export", "-o", "again.yaml")
    assert again.status == 0
    lines = [line for line in (tmp_path / "again.yaml").read_text(encoding="utf-8").splitlines() if "#" not in line]
    before = [line.replace("every:", "interval:") for line in exported.out.splitlines() if "#" not in line]
    assert lines == before


def test_a_ledger_without_files_is_exported(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("create", "disk", "--command", "df -h", "--every", "1h").status == 0

    exported = cli.run("export", "-o", "herdbeat.yaml")

    assert exported.status == 0
    assert cli.run("validate").status == 0
    assert cli.run("apply", "--dry-run", "--json").json()["added"] == 0


def test_an_empty_folder_is_named_when_there_is_nothing_to_import(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "cron.d").mkdir()

    result = cli.run("import", "crontab", "cron.d")

    assert result.status == 2
    assert "error: cron.d: nothing to import." in result.err
