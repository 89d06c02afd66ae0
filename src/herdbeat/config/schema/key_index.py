"""Where each key belongs, for messages about a key that stands one level too high or too low."""

from collections.abc import Iterator

from herdbeat.config.schema.agent import DOCKER, WORKING_DIRECTORY
from herdbeat.config.schema.fleet import AGENT_REFERENCE, FLEET
from herdbeat.config.schema.policies import BACKOFF_TABLE, BUDGET_TABLE, RETRY_TABLE
from herdbeat.config.schema.schedule import SCHEDULE
from herdbeat.config.schema.table import Table
from herdbeat.config.schema.targets import AGENT, ENDPOINT, INSTANCES
from herdbeat.config.schema.work import WORK_SOURCE_TABLE

# The most likely table last: it explains a key that several tables have.
_TABLE_LOCATIONS: tuple[tuple[Table, str], ...] = (
    (DOCKER, "under docker: of the fleet's defaults"),
    (AGENT_REFERENCE, "beside path: of an agent"),
    (WORK_SOURCE_TABLE, "under work_source:"),
    (BACKOFF_TABLE, "under backoff:"),
    (RETRY_TABLE, "under retry:"),
    (BUDGET_TABLE, "under budget:"),
    (ENDPOINT, "on an endpoint"),
    (FLEET, "at the top of the fleet file"),
    (AGENT, "on an agent"),
    (SCHEDULE, "in a schedule"),
)


def _iter_key_locations() -> Iterator[tuple[str, str]]:
    for table, location_text in _TABLE_LOCATIONS:
        for key in table.keys:
            if not key.unsupported_reason and key.name not in ("name", "type", "path"):
                yield key.name, location_text
    yield INSTANCES.name, "on a target, or in defaults"
    yield "max_concurrent", "under instances: of a target, or at the top of the fleet file"
    yield WORKING_DIRECTORY.name, "on an agent or a command"


KEY_LOCATIONS = dict(_iter_key_locations())
