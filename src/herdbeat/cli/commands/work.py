"""`herdbeat work`: the items that runs have taken from work sources; `release` offers one again."""

from collections.abc import Iterator

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.selection import Selection
from herdbeat.domain.work_claim import WorkClaimState
from herdbeat.domain.work_item import WorkItem
from herdbeat.service.commands.base import ReleasedItem, ReleaseWork, result_to_json
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.service.queries.work import WorkItemView, find_work_claim, list_work_items
from herdbeat.service.serialize import serialize_work
from herdbeat.service.work_offers import SourceOffer, ask_sources

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
    reader, is_all = handle.require_reader(), args.has(flags.ALL)
    if target is not None:
        target = select_schedules(reader, Selection(names=(target,)))[0].target
    items = list_work_items(reader, handle.now, target, only_open=not is_all, limit=limit, is_shared=handle.is_shared)
    offers = ask_sources(handle.fleet, context.environ, handle.clock, target=target) if args.has(flags.OFFERED) else []
    lines = [
        *_work_lines(context.terminal, handle, items, offers, is_all=is_all),
        *_stranded_lines(items),
        *_problem_lines(offers),
    ]
    return Output(json=lambda: serialize_work(items, offers), lines=lines)


def _work_lines(
    terminal: Terminal, handle: FleetHandle, items: list[WorkItemView], offers: list[SourceOffer], *, is_all: bool
) -> Iterator[str]:
    held = {(each.view.claim.source, each.view.claim.item) for each in items if each.view.claim.state.is_open}
    rows = [
        *(_work_row(terminal, handle, each) for each in items),
        *(_offered_row(offer, item) for offer in offers for item in offer.items if (offer.key, item.id) not in held),
    ]
    if rows:
        yield from terminal.format_table([_HEADINGS, *rows], shrink=(1, 7))
    elif is_all:
        yield Notice("No run has taken a work item yet.")
    else:
        yield Notice("No item is in progress, waits for its report or is blocked. All of them: herdbeat work --all")
    if not offers:
        yield Notice("What the sources offer now: herdbeat work --offered")


def _work_row(terminal: Terminal, handle: FleetHandle, item: WorkItemView) -> list[str]:
    claim = item.view.claim
    retry = f"; next try {format_time(claim.next_at, handle.now, handle.zone)}" if claim.next_at and claim.tries else ""
    return [
        printable(claim.item),
        printable(claim.title),
        terminal.style(claim.state, _STATE_COLOURS.get(claim.state, "dim")),
        f"{claim.attempt} of {claim.max_attempts}{_earlier_words(item)}",
        printable(item.view.label),
        format_short_id(claim.run_id),
        format_time(claim.claimed_at, handle.now, handle.zone),
        printable(f"{claim.reason}{retry}") or "–",
    ]


def _earlier_words(item: WorkItemView) -> str:
    """Return for example ` after 0001 failed`: the runs that have tried before, newest first."""
    tried = [f"{format_short_id(each.claim.run_id)} {each.run_status or each.claim.state}" for each in item.earlier]
    return f" after {', '.join(tried)}" if tried else ""


def _offered_row(offer: SourceOffer, item: WorkItem) -> list[str]:
    schedules = printable(", ".join(offer.schedules))
    return [printable(item.id), printable(item.title), "offered", "–", schedules, "–", "–", "–"]


def _stranded_lines(items: list[WorkItemView]) -> Iterator[str]:
    hosts = {each.view.claim.host or "": each.view.claim.item for each in items if each.is_stranded}
    for host, item in hosts.items():
        count = sum(each.is_stranded and each.view.claim.host == host for each in items)
        yield ErrorLine(
            f"{format_count(count, 'item')} can be reported or offered again only by the host {printable(host)}, "
            f"where no node runs. Start herdbeat there. If it is gone for good: "
            f"herdbeat release {printable(item)} --force"
        )


def _problem_lines(offers: list[SourceOffer]) -> Iterator[str]:
    for offer in offers:
        if offer.error:
            yield ErrorLine(f"{', '.join(offer.schedules)}: {printable(offer.error)} {offer.hint}".strip())


def run_release(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    claims = tuple(dict.fromkeys(find_work_claim(handle.require_reader(), item).claim.id for item in args.positionals))
    command = ReleaseWork(claims=claims, reason=parse_reason(args), only_ledger=args.has(flags.FORCE))
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    items = delivery.result.items
    has_refused = any(not item.success for item in items)
    return Output(
        json=lambda: result_to_json(delivery.result),
        lines=[_format_item(item, is_forced=command.only_ledger) for item in items],
        exit_status=EXIT_REFUSED if has_refused else 0,
    )


def _format_item(item: ReleasedItem, *, is_forced: bool) -> str:
    name = f"{printable(item.item)} ({printable(item.source)})"
    if not item.success:
        return ErrorLine(f"– {name} was not released: {item.refused}.")
    if is_forced:
        return f"✓ {name} is free in the ledger. What its source has marked stays there: look at it."
    if item.host is not None:
        return f"✓ {name} is offered again by the node on {printable(item.host)}."
    return f"✓ {name} is offered again."
