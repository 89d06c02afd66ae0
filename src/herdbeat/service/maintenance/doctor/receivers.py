"""Checks of the receivers of messages: which of them do not take what they are sent."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing

from herdbeat.domain.outbox import DeliveryRecord
from herdbeat.errors import HerdbeatError
from herdbeat.service.maintenance.doctor import DoctorFinding, report_problem
from herdbeat.store.location import StoreLocation, open_reader

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
