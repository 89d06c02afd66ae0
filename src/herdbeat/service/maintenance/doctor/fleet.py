"""All checks of one fleet, in the order in which a person would make them; receivers, work sources and engines too."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from herdbeat.clock import Clock, SystemClock
from herdbeat.config.files import read_environment
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.outbox import DeliveryRecord
from herdbeat.errors import HerdbeatError
from herdbeat.executors.base import Executor, ExecutorError
from herdbeat.executors.registry import open_executors
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning
from herdbeat.service.maintenance.doctor.agents import check_agents
from herdbeat.service.maintenance.doctor.isolation import check_git, check_isolation
from herdbeat.service.maintenance.doctor.ledger import check_ledger, check_logs_folder, check_node, check_state_dir
from herdbeat.service.maintenance.doctor.machine import check_other_schedulers
from herdbeat.service.maintenance.doctor.programs import (
    check_environment,
    check_folders,
    check_message_secrets,
    check_modules,
    check_programs,
    check_references,
    check_webhook_secrets,
    keep_local_targets,
    resolve_targets,
)
from herdbeat.service.work_offers import SourceOffer, ask_sources
from herdbeat.store.location import StoreLocation, open_reader, resolve_state_dir, store_location
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
    fleet = resolve_targets(fleet, environ)
    state_findings = list(check_state_dir(location))
    yield from state_findings
    if not state_findings or not isinstance(location, Path):
        yield from check_ledger(location, clock)
        yield from _check_applied(describe_unapplied)
    if not state_findings:
        yield from check_logs_folder(location)
        yield from check_receivers(location)
        yield from check_node(location)
    here = keep_local_targets(fleet)
    yield from check_programs(here, environ)
    yield from check_agents(here, environ)
    yield from check_isolation(here, environ)
    yield from check_git(here, environ)
    yield from check_folders(here)
    yield from check_webhook_secrets(fleet, environ)
    yield from check_message_secrets(fleet, environ)
    yield from check_modules(fleet, module_path)
    yield from check_environment(fleet, environ)
    yield from check_references(location, environ)
    yield from check_work(fleet, environ, clock)
    yield from check_executors(fleet, environ)
    yield from check_runs_elsewhere(fleet, location)
    own_pid = None if state_findings else find_lock_holder(resolve_state_dir(location))
    yield from check_other_schedulers(Path(fleet.home), own_pid)


def _check_applied(describe_unapplied: Callable[[], str]) -> Iterator[DoctorFinding]:
    try:
        difference = describe_unapplied()
    except HerdbeatError:
        return  # the ledger cannot be read: check_ledger has reported that
    if difference:
        yield report_warning("files", difference.partition("\n")[0], "herdbeat apply --dry-run, then herdbeat apply")


MIN_FAILED_ATTEMPTS = 2
"""One failure is an accident; the next attempt comes seconds later."""

MAX_LISTED = 1_000


def check_receivers(location: StoreLocation) -> Iterator[DoctorFinding]:
    """Report each receiver that has refused a message several times, with its last error."""
    try:
        with closing(open_reader(location)) as reader:
            waiting = reader.deliveries(only_open=True, limit=MAX_LISTED)
    except HerdbeatError:
        return  # there is no ledger yet, or the check of the ledger has said what is wrong with it
    by_channel: dict[str, list[DeliveryRecord]] = defaultdict(list)
    for each in waiting:
        by_channel[each.channel].append(each)
    for channel, messages in sorted(by_channel.items()):
        worst = max(messages, key=lambda each: each.attempts)
        if worst.attempts >= MIN_FAILED_ATTEMPTS and worst.error:
            number = f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
            text = f"{channel}: {number} not delivered after {worst.attempts} attempts: {worst.error}"
            yield report_problem("notify", text, "Messages are sent when the receiver answers again: herdbeat notify")


LABEL_FIX = "Create the label in the repository, or name another one under labels."
NAME_FIX = "Rename them."


def check_work(fleet: Fleet, environ: Mapping[str, str], clock: Clock) -> Iterator[DoctorFinding]:
    """Report each work source that cannot be used, once, with the schedules that take items from it."""
    for offer in ask_sources(fleet, environ, clock, finds_problems=True):
        yield _report_source(offer)


def _report_source(offer: SourceOffer) -> DoctorFinding:
    name, labels = "work", ", ".join(offer.schedules)
    if offer.error:
        return report_problem(name, f"{labels}: {offer.error}", offer.hint)
    if offer.problems:
        fix = NAME_FIX if offer.key.startswith("directory:") else LABEL_FIX
        return report_problem(name, f"{labels}: {' '.join(offer.problems)}", fix)
    count = len(offer.items)
    return report_ok(name, f"{labels}: {count} item{'' if count == 1 else 's'} offered")


def check_executors(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report each engine of the fleet that does not answer, and what runs on it would miss."""
    if not fleet.executors.kinds:
        return
    for kind, said in asyncio.run(_ask_all(fleet, environ)).items():
        if isinstance(said, ExecutorError):
            yield report_problem(kind, said.message, said.hint or "Correct executors.")
        else:
            yield report_ok(kind, said)
    for kind in fleet.executors.kinds:
        access = fleet.executors.access(kind)
        if access is not None and not (access.callback or fleet.server.public_url):
            what = f"runs on {kind} report to the address of the server, which only this machine may reach"
            yield report_warning(kind, what, f"Set executors.{kind}.callback or server.public_url.")


def check_runs_elsewhere(fleet: Fleet, location: StoreLocation) -> Iterator[DoctorFinding]:
    """Report runs on an engine that the fleet no longer has: no node can ask it about them, or end its jobs."""
    try:
        with closing(open_reader(location)) as reader:
            engines = Counter(each.kind for each in reader.remote_places(MAX_LISTED).values())
    except HerdbeatError:
        return  # there is no ledger yet, or the check of the ledger has said what is wrong with it
    for kind, count in sorted(engines.items()):
        if kind not in fleet.executors.kinds:
            runs = "1 run is" if count == 1 else f"{count} runs are"
            text = f"{runs} on {kind}, but executors.{kind} is not configured: nodes only wait for their reports"
            yield report_warning(kind, text, f"Add executors.{kind} until they have ended, or use herdbeat cancel.")


async def _ask_all(fleet: Fleet, environ: Mapping[str, str]) -> dict[ExecutorKind, str | ExecutorError]:
    engines = open_executors(fleet.executors, environ, SystemClock())
    return {kind: await _ask(engine) for kind, engine in engines.items()}


async def _ask(engine: Executor) -> str | ExecutorError:
    try:
        return await engine.check()
    except ExecutorError as error:
        return error
    finally:
        await engine.close()
