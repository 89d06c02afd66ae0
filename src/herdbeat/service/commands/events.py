"""Events from outside: verified calls become beats."""

from datetime import datetime

from herdbeat.scheduler.event_intake import enqueue_events
from herdbeat.service.commands.base import ReceivedEvents, ReceiveEvents
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import Transaction


def receive_events(
    tx: Transaction,
    now: datetime,
    who: str,  # noqa: ARG001 - as all handlers; each event has an origin of its own
    command: ReceiveEvents,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> ReceivedEvents:
    """A beat of an event is its own record: it leaves no row in the change log."""
    return ReceivedEvents(answers=tuple(enqueue_events(tx, now, command.events)))
