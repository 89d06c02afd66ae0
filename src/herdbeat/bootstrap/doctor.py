"""All checks of an installation: its files, its ledger, its programs and the machine."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from herdbeat.bootstrap.config import load_config
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, Problem, Severity
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning
from herdbeat.service.maintenance.doctor.fleet import check_fleet
from herdbeat.service.maintenance.doctor.machine import check_clock

_INEFFECTIVE_CODES = {Code.NOT_YET: "not yet", Code.BLOCKED_ADDRESS: "egress"}
"""Warnings of the files about something that does not happen, with the word for it."""


def inspect_installation(
    config: str | None,
    environ: Mapping[str, str],
    folder: Path,
    clock: Clock,
    describe_unapplied: Callable[[Fleet], str] = lambda fleet: "",  # noqa: ARG005
) -> Iterator[DoctorFinding]:
    """Yield all findings; without a fleet, those about the machine.

    `describe_unapplied` says how the files differ from what nodes that share a ledger run; empty if they do not.
    """
    try:
        reading = load_config(config, environ, folder)
    except ConfigError as error:
        yield report_problem("config", error.message, "herdbeat init")
        yield check_clock()
        return
    yield from _check_config(reading.problems, list(reading.sources))
    if (fleet := reading.fleet) is not None:
        counts = f"{_count(len(fleet.targets), 'target')}, {_count(len(fleet.schedules), 'schedule')}"
        yield report_ok("fleet", f"{fleet.name}, {counts}, {fleet.zone.key}")
        yield from check_fleet(fleet, clock, environ, sys.path, partial(describe_unapplied, fleet))
    yield check_clock()


def _check_config(problems: tuple[Problem, ...], sources: list[str]) -> Iterator[DoctorFinding]:
    errors = [each for each in problems if each.severity is Severity.ERROR]
    first = sources[0] if sources else "the configuration"
    if errors:
        where = f"{errors[0].where}  " if errors[0].where else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        yield report_problem("config", f"{where}{errors[0].message}{more}", "herdbeat validate")
    elif problems:
        yield report_warning("config", f"{first}  {_count(len(problems), 'warning')}", "herdbeat validate")
    for each in problems:
        if each.code in _INEFFECTIVE_CODES:
            yield report_problem(_INEFFECTIVE_CODES[each.code], f"{each.where}  {each.message}", each.hint)
    if not problems:
        yield report_ok("config", f"{first}{f' (and {len(sources) - 1} more)' if len(sources) > 1 else ''}")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
