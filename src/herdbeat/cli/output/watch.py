"""Drawing a screen again and again: on the terminal's other page, so that everything is as before when it ends."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from types import FrameType
from typing import TextIO

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.terminal import Terminal
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import UsageError

REDRAW_INTERVAL_S = 1.0
"""Seconds. Times on the screen tick, so it is drawn again even if nothing has happened."""

_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE_SCREEN = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The other page, no cursor, and no folding: a long line would push the others down."""

_CURSOR_HOME, _CLEAR_LINE, _CLEAR_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"

DrawFunction = Callable[[ParsedArgs, Terminal, FleetHandle], None]


def watch_screen(args: ParsedArgs, context: Context, handle: FleetHandle, draw: DrawFunction) -> int:
    """Until Ctrl+C, which ends it as it ends every command. Raises UsageError where there is no screen."""
    if args.has(flags.JSON) or not context.terminal.out.isatty():
        raise UsageError("--watch needs a screen.", hint="Leave it out; or call the command again and again.")
    out = context.terminal.out
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    out.write(_ENTER_SCREEN)
    try:
        while True:
            columns, lines = _screen_size(out)
            terminal = replace(context.terminal, columns=columns)
            out.write(render_frame(args, terminal, replace(handle, now=handle.clock.now()), draw, lines))
            out.flush()
            time.sleep(REDRAW_INTERVAL_S)
    finally:
        out.write(_LEAVE_SCREEN)
        out.flush()
        signal.signal(signal.SIGTERM, before)


def render_frame(args: ParsedArgs, terminal: Terminal, handle: FleetHandle, draw: DrawFunction, lines: int) -> str:
    """One picture in one piece, over the last one: clearing first would flicker. What does not fit is cut off."""
    page = StringIO()
    draw(args, replace(terminal, out=page), handle)
    drawn = page.getvalue().splitlines()
    if len(drawn) > lines:
        drawn = [*drawn[: lines - 1], terminal.style(f"… {len(drawn) - lines + 1} more lines", "dim")]
    return _CURSOR_HOME + "\n".join(f"{line}{_CLEAR_LINE}" for line in drawn) + _CLEAR_SCREEN


def _screen_size(out: TextIO) -> tuple[int, int]:
    """Asked anew for each picture: the window may have been resized."""
    size = os.get_terminal_size(out.fileno())
    return size.columns or 80, size.lines or 24


def _raise_interrupt(number: int, at: FrameType | None) -> None:  # noqa: ARG001 -- the shape of a handler
    """Being told to end is no reason to leave the terminal on its other page."""
    raise KeyboardInterrupt
