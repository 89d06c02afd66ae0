"""Timers with their services become commands; settings that have no equivalent are named."""

import subprocess
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.imports.document import FleetDocument, NoteKind, render_fleet
from herdbeat.config.imports.systemd import UnitFile, import_timers, parse_unit
from herdbeat.config.loader import try_load_fleet
from herdbeat.domain.target import CommandSpec

SERVICE = "[Service]\nType=oneshot\nUser=ann\nExecStart=/bin/true --fast\n"


def unit(name: str, text: str, *, is_user: bool = False) -> UnitFile:
    return parse_unit(name, [(name, text)], is_user=is_user)


def imported(timer: str, service: str = SERVICE, name: str = "job") -> FleetDocument:
    services = {f"{name}.service": unit(f"{name}.service", service)}
    return import_timers([unit(f"{name}.timer", f"[Timer]\n{timer}")], services, "Europe/Berlin", user="ann")


def keys_of(document: FleetDocument) -> dict[str, object]:
    (target,) = document.targets
    return dict(target.keys)


def messages(document: FleetDocument, kind: NoteKind) -> str:
    return "\n".join(f"{note.where}: {note.message}" for note in document.all_notes if note.kind is kind)


def test_a_timer_and_its_service_are_one_command() -> None:
    settings = 'WorkingDirectory=/srv\nEnvironment="A=1 2" B=x\nTimeoutStartSec=2h\n'
    service = f"[Unit]\nDescription=Backs up %p\n{SERVICE}{settings}"

    document = imported("OnCalendar=Mon..Fri 02:00\nPersistent=true\nRandomizedDelaySec=5min\n", service)

    assert keys_of(document) == {
        "description": "Backs up job",
        "command": ["/bin/true", "--fast"],
        "working_directory": "/srv",
        "env": {"A": "1 2", "B": "x"},
        "timeout": "2h",
        "cron": "0 2 * * MON-FRI",
        "catchup": "once",
        "jitter": "5m",
    }


@pytest.mark.parametrize(
    ("timer", "keys"),
    [
        ("OnUnitActiveSec=1h\n", {"every": "1h", "anchor": "start"}),
        ("OnUnitInactiveSec=90s\nOnBootSec=5min\n", {"every": "90s", "anchor": "end"}),
        ("OnCalendar=hourly\nOnCalendar=\nOnCalendar=daily\n", {"cron": "0 0 * * *"}),
    ],
)
def test_intervals_and_undone_settings_are_read_as_systemd_does(timer: str, keys: dict[str, str]) -> None:
    read = keys_of(imported(timer))

    assert {name: read[name] for name in keys} == keys


def test_several_times_are_several_schedules() -> None:
    document = imported("OnCalendar=daily\nOnCalendar=Mon 12:00\nOnUnitActiveSec=1h\n")

    assert keys_of(document)["schedules"] == {
        "time-1": {"cron": "0 0 * * *"},
        "time-2": {"cron": "0 12 * * MON"},
        "time-3": {"every": "1h", "anchor": "start"},
    }


LOST = [
    ("OnBootSec=10min\n", SERVICE, "OnBootSec=10min runs once"),
    ("OnCalendar=Fri..Mon\n", SERVICE, "Fri..Mon"),
    ("OnCalendar=daily\nWakeSystem=true\n", SERVICE, "does not wake the machine"),
    ("OnCalendar=daily\n", f"{SERVICE}Restart=on-failure\n", "Restart=on-failure"),
    ("OnCalendar=daily\n", f"{SERVICE}ProtectSystem=strict\nNice=5\n", "ProtectSystem, Nice"),
    ("OnCalendar=daily\n", f"{SERVICE}EnvironmentFile=-/etc/default/x\n", "/etc/default/x"),
    ("OnCalendar=daily\n", f"[Unit]\nOnFailure=mail.service\n{SERVICE}", "OnFailure=mail.service"),
    ("OnCalendar=daily\n", f"[Unit]\nConditionACPower=true\n{SERVICE}", "ConditionACPower=true"),
    ("OnCalendar=daily\n", "[Service]\nType=oneshot\n", "no ExecStart="),
    ("OnCalendar=daily\n", "[Service]\nExecStart=/bin/x %Q\n", "%Q"),
    ("", SERVICE, "has no time"),
]


@pytest.mark.parametrize(("timer", "service", "reason"), LOST)
def test_what_cannot_be_carried_is_named_with_its_place(timer: str, service: str, reason: str) -> None:
    document = imported(timer, service)

    lost = messages(document, NoteKind.NOT_CARRIED)
    assert reason in lost
    assert "job." in lost


def test_a_timer_without_a_service_and_a_template_are_named() -> None:
    timers = [unit("a.timer", "[Timer]\nOnCalendar=daily\n"), unit("b@.timer", "[Timer]\nOnCalendar=daily\n")]

    document = import_timers(timers, {}, "UTC", user="ann")

    assert "There is no a.service" in messages(document, NoteKind.NOT_CARRIED)
    assert "A template" in messages(document, NoteKind.NOT_CARRIED)


def test_an_instance_uses_its_template_and_its_name() -> None:
    services = {"dump@.service": unit("dump@.service", "[Service]\nUser=ann\nExecStart=/bin/dump %i\n")}

    document = import_timers([unit("dump@main.timer", "[Timer]\nOnCalendar=daily\n")], services, "UTC", user="ann")

    assert keys_of(document)["command"] == ["/bin/dump", "main"]


def test_a_service_of_another_user_is_a_change() -> None:
    service = "[Service]\nExecStart=/bin/true\n"

    assert "runs as root" in messages(imported("OnCalendar=daily\n", service), NoteKind.CHANGED)
    assert "runs as root" not in messages(imported("OnCalendar=daily\n", f"{service}User=ann\n"), NoteKind.CHANGED)


EXEC_LINES = [
    ("ExecStart=/bin/echo one  'two  words' \\\n  three\n", "one two  words three\n"),
    ("ExecStart=/bin/echo ${A} $B ${NONE}. $$5 100%%\n", "1 2 x y . $5 100%\n"),
    ("ExecStartPre=-/bin/false\nExecStart=/bin/echo a\nExecStart=/bin/echo b\n", "a\nb\n"),
    ("ExecStart=@/bin/echo name x ; /bin/echo y\n", "x\ny\n"),
    ("ExecStart=:/bin/echo ${A}\n", "${A}\n"),
    ("ExecStart=/bin/echo '`x` \"${A}\"'\n", '`x` "1 2"\n'),
]


@pytest.mark.parametrize(("lines", "output"), EXEC_LINES)
def test_the_imported_command_prints_what_the_service_would(lines: str, output: str, tmp_path: Path) -> None:
    service = f'[Service]\nType=oneshot\nUser=ann\nEnvironment="A=1 2" "B=x y"\nWorkingDirectory={tmp_path}\n{lines}'
    (tmp_path / "herdbeat.yaml").write_text(render_fleet(imported("OnCalendar=daily\n", service)), encoding="utf-8")
    result = try_load_fleet(tmp_path, environ={}, system_zone=ZoneInfo("UTC"), base=tmp_path)
    assert result.errors == ()
    assert result.fleet is not None
    spec = result.fleet.targets[0].spec
    assert isinstance(spec, CommandSpec)

    done = subprocess.run(spec.command, capture_output=True, text=True, env=dict(spec.env_values), check=True)

    assert done.stdout == output


def test_a_secret_of_a_service_becomes_a_reference() -> None:
    text = render_fleet(imported("OnCalendar=daily\n", f"{SERVICE}Environment=API_TOKEN=abcdef123456\n"))

    assert "abcdef123456" not in text
    assert "API_TOKEN: '${API_TOKEN}'" in text


def test_exec_condition_is_a_precheck() -> None:
    document = imported("OnCalendar=daily\n", f"{SERVICE}ExecCondition=/bin/test -e /x\n")

    assert keys_of(document)["precheck"] == ["/bin/test", "-e", "/x"]


def test_drop_ins_change_the_unit() -> None:
    timer = parse_unit(
        "job.timer",
        [("job.timer", "[Timer]\nOnCalendar=daily\n"), ("x.conf", "[Timer]\nOnCalendar=\nOnCalendar=hourly\n")],
    )

    document = import_timers([timer], {"job.service": unit("job.service", SERVICE)}, "UTC", user="ann")

    assert keys_of(document)["cron"] == "0 * * * *"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x85"])
def test_a_value_with_a_separator_of_unicode_is_not_cut_there(separator: str) -> None:
    """The rest was taken for a setting of its own: it could be another ExecStart."""
    service = f"[Service]\nUser=ann\nType=oneshot\nExecStart=/bin/echo 'a{separator}ExecStart=/bin/false'\r\n"

    document = imported("OnCalendar=daily\n", service)

    assert keys_of(document)["command"] == ["/bin/echo", f"a{separator}ExecStart=/bin/false"]
