"""Checks of work sources: each is asked what it offers, as a beat would, and whether it is set up for more."""

from collections.abc import Iterator, Mapping

from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem
from herdbeat.service.work_offers import SourceOffer, ask_sources

LABEL_FIX = "Create the label in the repository, or name another one under labels."


def check_work(fleet: Fleet, environ: Mapping[str, str], clock: Clock) -> Iterator[DoctorFinding]:
    """Report each work source that cannot be used, once, with the schedules that take items from it."""
    for offer in ask_sources(fleet, environ, clock, finds_problems=True):
        yield _report_source(offer)


def _report_source(offer: SourceOffer) -> DoctorFinding:
    name, labels = "work", ", ".join(offer.schedules)
    if offer.error:
        return report_problem(name, f"{labels}: {offer.error}", offer.hint)
    if offer.problems:
        return report_problem(name, f"{labels}: {' '.join(offer.problems)}", LABEL_FIX)
    count = len(offer.items)
    return report_ok(name, f"{labels}: {count} item{'' if count == 1 else 's'} offered")
