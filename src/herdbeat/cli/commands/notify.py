"""`herdbeat notify`: messages sent and waiting, open episodes; test a channel, acknowledge, snooze."""

import shlex
from collections.abc import Iterator

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.notification import Episode
from herdbeat.domain.outbox import DeliveryKind, DeliveryRecord
from herdbeat.durations import parse_duration
from herdbeat.errors import NotFound, UsageError, did_you_mean_suffix
from herdbeat.service.commands.base import ChangeEpisodes, SendTestMessage, result_to_json
from herdbeat.service.serialize import serialize_episode, serialize_message


def run_notify(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    reader, limit = handle.require_reader(), parse_row_count(args.value(flags.COUNT))
    episodes = reader.episodes(only_open=not args.has(flags.ALL), limit=limit)
    messages = reader.deliveries(DeliveryKind.NOTIFICATION, limit=limit)
    return Output(
        json=lambda: {
            "channels": sorted(handle.fleet.notify or {}),
            "episodes": [serialize_episode(each) for each in episodes],
            "deliveries": [serialize_message(each) for each in messages],
        },
        lines=_lines(context.terminal, handle, episodes, messages),
    )


def run_test(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    (name,) = args.positionals
    channels = sorted(handle.fleet.notify or {})
    if name not in channels:
        hint = f"Channels under notify: {', '.join(channels) or 'none'}."
        raise NotFound(f'There is no channel "{name[:100]}"{did_you_mean_suffix(None)}', hint=hint)
    delivery = handle.dispatcher.deliver(current_actor(context), SendTestMessage(channel=name))
    lines = [f"✓ A test message is on its way to {name}. Look at it: herdbeat notify"]
    return Output(json=lambda: result_to_json(delivery.result), lines=lines, is_compact=True)


def run_ack(args: ParsedArgs, context: Context) -> Output:
    command = ChangeEpisodes(subjects=_subjects(args), reason=parse_reason(args), clear=args.has(flags.CLEAR))
    return _change(args, context, command, "open again" if command.clear else "acknowledged")


def run_snooze(args: ParsedArgs, context: Context) -> Output:
    written = args.value(flags.FOR)
    if args.has(flags.CLEAR) and written is None:
        return run_ack(args, context)
    if written is None or args.has(flags.CLEAR):
        raise UsageError("A snooze needs --for.", hint="For example: herdbeat notify snooze backup --for 2h")
    until = context.clock.now() + parse_duration(written)
    command = ChangeEpisodes(subjects=_subjects(args), until=until, reason=parse_reason(args))
    return _change(args, context, command, "snoozed")


def _subjects(args: ParsedArgs) -> tuple[str, ...]:
    if bool(args.positionals) is args.has(flags.ALL):
        raise UsageError("Which episodes?", hint="Name schedules, as `herdbeat notify` shows them, or use --all.")
    return tuple(args.positionals)


def _change(args: ParsedArgs, context: Context, command: ChangeEpisodes, word: str) -> Output:
    handle = open_fleet_handle(args, context)
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    changed = delivery.result.changed
    text = f"✓ {format_count(changed, 'episode')} {word}." if changed else "There is no open episode of that name."
    undo = ""
    if changed and not command.clear:
        names = " ".join(map(shlex.quote, command.subjects)) or "--all"
        verb = "ack" if command.until is None else "snooze"
        undo = f"herdbeat notify {verb} {printable(names)} --clear"
        text = f"{text}   undo: {undo}"
    json = {**result_to_json(delivery.result), "undo": undo or None}
    return Output(json=lambda: json, lines=[text], is_compact=True)


def _lines(
    terminal: Terminal, handle: FleetHandle, episodes: list[Episode], messages: list[DeliveryRecord]
) -> Iterator[str]:
    if not handle.fleet.notify:
        yield Notice("The fleet has no channel. Add one under notify: in its file.")
    elif not episodes:
        yield Notice("No open conditions.")
    if episodes:
        heading = ["CONDITION", "SUBJECT", "CHANNEL", "SINCE", "REPORTED", "DETAIL"]
        rows = [_episode_row(handle, each) for each in episodes]
        yield from terminal.format_table([heading, *rows], shrink=(5, 1))
    if messages:
        yield ""
        heading = ["MESSAGE", "CHANNEL", "WRITTEN", "STATE", "ATTEMPTS", "ERROR"]
        rows = [_message_row(handle, each) for each in messages]
        yield from terminal.format_table([heading, *rows], shrink=(5,))


def _episode_row(handle: FleetHandle, episode: Episode) -> list[str]:
    told = format_time(episode.told_at, handle.now, handle.zone) if episode.told_at else "not yet"
    if episode.acked_by:
        told = f"{told}, seen by {episode.acked_by}"
    elif episode.snoozed_until is not None and episode.snoozed_until > handle.now:
        told = f"snoozed until {format_time(episode.snoozed_until, handle.now, handle.zone)}"
    return [
        f"{episode.condition}{', over' if episode.ended_at else ''}",
        printable(episode.subject),
        printable(episode.channel),
        format_time(episode.began_at, handle.now, handle.zone),
        printable(told),
        printable(" ".join(episode.detail.split())) or "–",
    ]


def _message_row(handle: FleetHandle, message: DeliveryRecord) -> list[str]:
    return [
        message.name,
        printable(message.channel),
        format_time(message.created_at, handle.now, handle.zone),
        str(message.state),
        str(message.attempts),
        printable(message.error) or "–",
    ]
