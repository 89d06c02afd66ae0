"""`herdbeat skip`: let the next beat pass."""

from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.control import run_act
from herdbeat.faces.cli.ledger import open_ledger, wanted_rows
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.world import World
from herdbeat.service.acts import Skipping


def skip(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        act = Skipping(who=person(world), reason=reason_of(given), count=_count(given))
        return run_act(given, world, ledger, act)


def _count(given: Given) -> int:
    count = given.value(flags.COUNT)
    if not given.has(flags.CLEAR):
        return wanted_rows(count, usual=1)
    if count is not None:
        raise UsageError("--clear and --count exclude each other.", hint="--clear takes the whole wish back.")
    return 0
