"""Crontabs become commands and endpoints; what cannot be carried is named with its line."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.imports.crontab import CrontabFile, import_crontabs, name_command, split_input
from herdbeat.config.imports.document import FleetDocument, NoteKind, TargetDocument, render_fleet
from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import CommandSpec
from herdbeat.errors import SourceLocation
from herdbeat.triggers import Cron


def imported(text: str, *, has_users: bool = False) -> FleetDocument:
    return import_crontabs([CrontabFile(name="crontab", text=text, has_users=has_users)], "Europe/Berlin", user="ann")


def only(text: str, *, has_users: bool = False) -> TargetDocument:
    (target,) = imported(text, has_users=has_users).targets
    return target


def load(document: FleetDocument, folder: Path, **environ: str) -> LoadResult:
    (folder / "herdbeat.yaml").write_text(render_fleet(document), encoding="utf-8")
    return try_load_fleet(folder, environ={"HOME": str(folder), **environ}, system_zone=ZoneInfo("UTC"), base=folder)


def fleet_of(document: FleetDocument, folder: Path, **environ: str) -> Fleet:
    result = load(document, folder, **environ)
    assert result.errors == ()
    assert result.fleet is not None
    return result.fleet


def test_a_line_is_a_command_of_its_own_shell_with_its_variables_and_its_comment() -> None:
    variables = "SHELL=/bin/bash\nPATH = /opt/bin:/bin\nHOME=/srv\n"
    text = f"{variables}\n# Nightly backup\n# of everything\n30 2 * * * backup > log 2>&1\n"

    target = only(text)

    assert target.name == "backup"
    assert target.where == SourceLocation(file="crontab", line=7, column=1)
    assert dict(target.keys) == {
        "description": "Nightly backup of everything",
        "command": ["/bin/bash", "-c", "backup > log 2>&1"],
        "working_directory": "/srv",
        "env": {"PATH": "/opt/bin:/bin"},
        "timeout": "1d",
        "cron": "30 2 * * *",
    }


@pytest.mark.parametrize(
    ("when", "cron"),
    [
        ("@hourly", "@hourly"),
        ("@daily", "@daily"),
        ("@midnight", "@daily"),
        ("@annually", "@yearly"),
        ("*/15  9-17 * *\t1-5", "*/15 9-17 * * 1-5"),
        ("0 0 1,15 * Mon", "0 0 1,15 * Mon"),
        ("0 4 8-14 jan-mar sun", "0 4 8-14 jan-mar sun"),
    ],
)
def test_every_form_of_a_time_is_carried(when: str, cron: str, tmp_path: Path) -> None:
    document = imported(f"{when} /bin/true\n")

    (schedule,) = fleet_of(document, tmp_path).schedules
    assert isinstance(schedule.trigger, Cron)
    assert schedule.trigger == Cron.parse(cron, ZoneInfo("Europe/Berlin"))


def test_cron_tz_is_the_zone_of_the_lines_below_it() -> None:
    text = "0 1 * * * /bin/a\nCRON_TZ=Asia/Tokyo\n0 1 * * * /bin/b\nCRON_TZ=Mars/Phobos\n0 1 * * * /bin/c\n"

    document = imported(text)

    assert [each.keys.get("timezone") for each in document.targets] == [None, "Asia/Tokyo", None]
    assert "Mars/Phobos" in document.targets[2].notes[0].message


@pytest.mark.parametrize(
    ("command", "shell_text", "stdin"),
    [
        ("date", "date", None),
        (r"date +\%F", "date +%F", None),
        ("cat%one%two", "cat", "one\ntwo\n"),
        (r"cat % a\%b %", "cat", " a%b \n"),
    ],
)
def test_a_percent_sign_begins_the_input(command: str, shell_text: str, stdin: str | None) -> None:
    assert split_input(command) == (shell_text, stdin)


def test_the_imported_command_does_what_the_line_did(tmp_path: Path) -> None:
    document = imported(
        'NAME=ann\n* * * * * cat - > out; echo "${NAME} ${NONE:-x} $((1+1))" >> out%in ${NAME} {{put}}\n'
    )
    fleet = fleet_of(document, tmp_path)
    spec = fleet.targets[0].spec
    assert isinstance(spec, CommandSpec)

    subprocess.run(
        spec.command, input="in ${NAME} {{put}}\n", text=True, cwd=tmp_path, env=dict(spec.env_values), check=True
    )

    assert (tmp_path / "out").read_text() == "in ${NAME} {{put}}\nann x 2\n"
    assert fleet.schedules[0].prompt == "in ${NAME} \\{{put}}\n"


def test_a_system_crontab_has_a_user_who_is_named_if_it_is_another_one() -> None:
    text = "17 * * * * root cd / && run-parts /etc/cron.hourly\n0 1 * * * ann /bin/mine\n"

    first, second = imported(text, has_users=True).targets

    assert first.keys["command"] == ["/bin/sh", "-c", "cd / && run-parts /etc/cron.hourly"]
    assert (first.keys["working_directory"], second.keys["working_directory"]) == ("~root", "~")
    assert [note.kind for note in first.notes] == [NoteKind.CHANGED]
    assert second.notes == ()


LOST = [
    ("@reboot /bin/start", "@reboot has no equivalent"),
    ("0 25 * * * /bin/late", "hour must be 0-23, got 25"),
    ("0 0 31 2 * /bin/never", "it never runs"),
    ("0~30 * * * * /bin/any", "the random time of ~"),
    ("this is nothing", "not a line of a crontab"),
    ("RANDOM_DELAY=30", "RANDOM_DELAY=30 was not carried"),
    ("0 1 * * * echo \0", "a control character"),
]


@pytest.mark.parametrize(("line", "reason"), LOST)
def test_what_cannot_be_carried_is_named_with_its_line_and_a_fix(line: str, reason: str) -> None:
    document = imported(f"# first line\n{line}\n0 1 * * * /bin/kept\n")

    (note,) = [each for each in document.all_notes if each.kind is NoteKind.NOT_CARRIED]
    assert reason in note.message
    assert note.hint
    assert note.where is not None
    assert (note.where.file, note.where.line) == ("crontab", 2)
    assert f"crontab:2: NOT CARRIED: {note.message}"[:60] in render_fleet(document).replace("\n#  ", "")
    assert [each.name for each in document.targets] == ["kept"]


def test_a_line_that_is_switched_off_is_mentioned_and_not_run() -> None:
    document = imported("#0 5 * * * /bin/old\n0 6 * * * /bin/new\n")

    assert [each.name for each in document.targets] == ["new"]
    assert "description" not in document.targets[0].keys
    assert "/bin/old" in document.all_notes[0].message


def test_a_secret_of_a_crontab_becomes_a_reference(tmp_path: Path) -> None:
    text = 'API_TOKEN=abcdef123456\n0 1 * * * push\n0 2 * * * curl -f -H "X-Api-Key: qwertz987654" https://example.com/run\n'

    document = imported(text)

    assert "abcdef123456" not in render_fleet(document)
    assert "qwertz987654" not in render_fleet(document)
    environ = {"API_TOKEN": "abcdef123456", "EXAMPLE_COM_RUN_X_API_KEY": "qwertz987654"}
    fleet = fleet_of(document, tmp_path, **environ)
    spec = next(each.spec for each in fleet.targets if isinstance(each.spec, CommandSpec))
    assert (spec.env_values, spec.variables) == ({"API_TOKEN": "${API_TOKEN}"}, ("API_TOKEN",))


def test_mailto_is_offered_as_a_channel(tmp_path: Path) -> None:
    text = render_fleet(imported("MAILTO=ops@example.com\n0 1 * * * /bin/a\n"))

    (tmp_path / "herdbeat.yaml").write_text(text.replace("# notify:", "notify:").replace("#   mail:", "  mail:"))
    result = try_load_fleet(tmp_path, environ={}, system_zone=ZoneInfo("UTC"), base=tmp_path)

    assert result.errors == ()
    assert result.fleet is not None
    assert result.fleet.notify is not None
    assert result.fleet.notify["mail"]["to"] == "ops@example.com"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/opt/backup.sh --full", "backup"),
        ("cd /srv && ./report.py | mail me", "report"),
        ("flock -n /tmp/l nice -n 10 python3 -u /opt/sync.py", "sync"),
        ("FOO=1 timeout 10m /usr/bin/env php artisan", "artisan"),
        ("sudo -u www-data /usr/bin/certbot renew", "certbot"),
        ("'unclosed", "unclosed"),
        ("", "job"),
    ],
)
def test_a_command_is_named_after_what_it_starts(command: str, name: str) -> None:
    assert name_command(command).strip("'") == name


@pytest.mark.parametrize("given", ["%", "cat %%Dear all,%here it is.", "cat % a%b"])
def test_an_input_that_begins_with_a_blank_is_written_so_that_it_can_be_read(given: str, tmp_path: Path) -> None:
    document = imported(f"@daily {given}\n")

    result = load(document, tmp_path)

    assert result.errors == ()
    assert result.fleet is not None
    assert [schedule.prompt for schedule in result.fleet.schedules] == [document.targets[0].keys["prompt"]]


def test_names_are_unique() -> None:
    document = imported("0 1 * * * /a/run.sh\n0 2 * * * /b/run.sh\n0 3 * * * /c/run.sh\n")

    assert [each.name for each in document.targets] == ["run", "run-2", "run-3"]


@given(
    st.lists(
        st.one_of(
            st.builds("{} {}".format, st.sampled_from(["@daily", "*/5 * * * *", "0 9 1 * mon"]), st.text(min_size=1)),
            st.builds("{}={}".format, st.sampled_from(["PATH", "A", "TOKEN", "MAILTO", "SHELL", "HOME"]), st.text()),
            st.text(),
        ),
        max_size=6,
    )
)
def test_any_text_gives_a_file_that_loads(lines: list[str]) -> None:
    document = imported("\n".join(lines))

    with TemporaryDirectory() as folder:
        result = load(document, Path(folder), TOKEN="abcdefgh", A="ijklmnop")

    assert result.errors == ()
    assert result.fleet is not None
    assert len(result.fleet.targets) == len(document.targets)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029"])
def test_a_command_with_a_separator_of_unicode_is_not_cut_there(separator: str, tmp_path: Path) -> None:
    """Its rest was taken for another line of the crontab: a job of its own, if it looked like one."""
    line = f"0 2 * * * printf %s 'a{separator}0 3 * * * b'"

    fleet = fleet_of(imported(f"{line}\r\n# end\n".replace("%", "\\%")), tmp_path)

    (target,) = fleet.targets
    assert isinstance(target.spec, CommandSpec)
    done = subprocess.run(target.spec.command, capture_output=True, text=True, check=True)
    assert done.stdout == f"a{separator}0 3 * * * b"


@pytest.mark.parametrize("control", ["\x0b", "\x0c", "\x1c", "\x1e", "\x85"])
def test_a_line_with_a_control_character_is_one_line_that_is_not_carried(control: str) -> None:
    document = imported(f"0 2 * * * echo a{control}0 3 * * * echo b\n0 4 * * * echo c\n")

    assert [target.where.line for target in document.targets if target.where] == [2]
    assert [note.where.line for note in document.notes if note.kind is NoteKind.NOT_CARRIED and note.where] == [1]
