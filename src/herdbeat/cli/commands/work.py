"""`herdbeat work`: the items that runs have taken from work sources; `release` offers one again."""

from collections.abc import Iterator

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.work_claim import WorkClaimState, WorkClaimView
from herdbeat.service.commands.base import ReleasedItem, ReleaseWork, result_to_json
from herdbeat.service.queries.work import find_work_claim
from herdbeat.service.serialize import serialize_work_claims

EXIT_REFUSED = 1
_HEADINGS = ["ITEM", "TITLE", "STATE", "ATTEMPT", "SCHEDULE", "RUN", "SINCE", "REASON"]
_STATE_COLOURS = {
    WorkClaimState.CLAIMING: "yellow",
    WorkClaimState.CLAIMED: "cyan",
    WorkClaimState.RAN: "yellow",
    WorkClaimState.BLOCKED: "red",
}


def run_work(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    target, limit = next(iter(args.positionals), None), parse_row_count(args.value(flags.COUNT))
    views = handle.require_reader().work_claims(target, only_open=not args.has(flags.ALL), limit=limit)
    lines = _work_lines(context.terminal, handle, views, is_all=args.has(flags.ALL))
    return Output(json=lambda: serialize_work_claims(views), lines=lines)


def _work_lines(terminal: Terminal, handle: FleetHandle, views: list[WorkClaimView], *, is_all: bool) -> Iterator[str]:
    if views:
        rows = [_work_row(terminal, handle, view) for view in views]
        yield from terminal.format_table([_HEADINGS, *rows], shrink=(1, 7))
    elif is_all:
        yield Notice("No run has taken a work item yet.")
    else:
        yield Notice("No item is in progress, waits for its report or is blocked. All of them: herdbeat work --all")


def _work_row(terminal: Terminal, handle: FleetHandle, view: WorkClaimView) -> list[str]:
    claim = view.claim
    retry = f"; next try {format_time(claim.next_at, handle.now, handle.zone)}" if claim.next_at and claim.tries else ""
    return [
        printable(claim.item),
        printable(claim.title),
        terminal.style(claim.state, _STATE_COLOURS.get(claim.state, "dim")),
        f"{claim.attempt} of {claim.max_attempts}",
        printable(view.label),
        format_short_id(claim.run_id),
        format_time(claim.claimed_at, handle.now, handle.zone),
        printable(f"{claim.reason}{retry}") or "–",
    ]


def run_release(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    claims = tuple(dict.fromkeys(find_work_claim(handle.require_reader(), item).claim.id for item in args.positionals))
    command = ReleaseWork(claims=claims, reason=parse_reason(args))
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    items = delivery.result.items
    has_refused = any(not item.success for item in items)
    return Output(
        json=lambda: result_to_json(delivery.result),
        lines=[_format_item(item) for item in items],
        exit_status=EXIT_REFUSED if has_refused else 0,
    )


def _format_item(item: ReleasedItem) -> str:
    name = f"{printable(item.item)} ({printable(item.source)})"
    return f"✓ {name} is offered again." if item.success else ErrorLine(f"– {name} was not released: {item.refused}.")
