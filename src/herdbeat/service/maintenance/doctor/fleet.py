"""All checks of one fleet, in the order in which a person would make them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.config.files import read_environment
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import HerdbeatError
from herdbeat.service.maintenance.doctor import DoctorFinding, report_warning
from herdbeat.service.maintenance.doctor.agents import check_agents
from herdbeat.service.maintenance.doctor.isolation import check_git, check_isolation
from herdbeat.service.maintenance.doctor.ledger import check_ledger, check_logs_folder, check_node, check_state_dir
from herdbeat.service.maintenance.doctor.machine import check_other_schedulers
from herdbeat.service.maintenance.doctor.programs import (
    check_environment,
    check_folders,
    check_modules,
    check_programs,
    check_webhook_secrets,
)
from herdbeat.service.maintenance.doctor.receivers import check_receivers
from herdbeat.service.maintenance.doctor.work import check_work
from herdbeat.store.location import resolve_state_dir, store_location
from herdbeat.store.state_lock import find_lock_holder


def check_fleet(
    fleet: Fleet,
    clock: Clock,
    environ: Mapping[str, str],
    module_path: Iterable[str],
    describe_unapplied: Callable[[], str],
) -> Iterator[DoctorFinding]:
    """Yield the findings about ledger, node, programs, folders, modules, environment and work sources.

    An unusable state directory hides what is in it, but not a database elsewhere. `describe_unapplied` returns how the
    files differ from what nodes that share a ledger run; empty if they do not.
    """
    location, environ = store_location(fleet), read_environment(fleet.home, environ)
    state_findings = list(check_state_dir(location))
    yield from state_findings
    if not state_findings or not isinstance(location, Path):
        yield from check_ledger(location, clock)
        yield from _check_applied(describe_unapplied)
    if not state_findings:
        yield from check_logs_folder(location)
        yield from check_receivers(location)
        yield from check_node(location)
    yield from check_programs(fleet, environ)
    yield from check_agents(fleet, environ)
    yield from check_isolation(fleet, environ)
    yield from check_git(fleet, environ)
    yield from check_folders(fleet)
    yield from check_webhook_secrets(fleet, environ)
    yield from check_modules(fleet, module_path)
    yield from check_environment(fleet, environ)
    yield from check_work(fleet, environ, clock)
    own_pid = None if state_findings else find_lock_holder(resolve_state_dir(location))
    yield from check_other_schedulers(Path(fleet.home), own_pid)


def _check_applied(describe_unapplied: Callable[[], str]) -> Iterator[DoctorFinding]:
    try:
        difference = describe_unapplied()
    except HerdbeatError:
        return  # the ledger cannot be read: check_ledger has reported that
    if difference:
        yield report_warning("files", difference.partition("\n")[0], "herdbeat apply --dry-run, then herdbeat apply")
