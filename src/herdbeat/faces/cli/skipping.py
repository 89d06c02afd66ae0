"""`herdbeat skip`: let the next beat pass."""

from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.control import run_change
from herdbeat.faces.cli.ledger import open_fleet_handle, parse_row_count
from herdbeat.faces.cli.person import current_actor, parse_reason
from herdbeat.faces.cli.world import Context
from herdbeat.service.acts import SkipBeats


def run_skip(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        command = SkipBeats(who=current_actor(context), reason=parse_reason(args), count=_parse_skip_count(args))
        return run_change(args, context, handle, command)


def _parse_skip_count(args: ParsedArgs) -> int:
    count = args.value(flags.COUNT)
    if not args.has(flags.CLEAR):
        return parse_row_count(count, default_count=1)
    if count is not None:
        raise UsageError("--clear and --count exclude each other.", hint="--clear takes the whole wish back.")
    return 0
