"""Redraw a screen until Ctrl+C, on the alternate screen of the terminal, which keeps what was there before."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType
from typing import TextIO

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.terminal import Terminal
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import UsageError

REDRAW_INTERVAL_S = 1.0
"""The screen shows times left, so it is redrawn even if nothing has happened."""

_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE_SCREEN = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The alternate screen, no cursor, and no line wrapping: a long line would push the others down."""

_CURSOR_HOME, _CLEAR_LINE, _CLEAR_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"

DrawFunction = Callable[[ParsedArgs, Terminal, FleetHandle], Iterable[str]]


def watch_screen(args: ParsedArgs, context: Context, handle: FleetHandle, draw: DrawFunction) -> int:
    """Redraw until Ctrl+C, which ends every command. Raises UsageError if stdout is not a terminal."""
    if args.has(flags.JSON) or not context.terminal.out.isatty():
        raise UsageError("--watch needs a screen.", hint="Leave it out; or call the command again and again.")
    out = context.terminal.out
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    out.write(_ENTER_SCREEN)
    try:
        while True:
            columns, lines = _screen_size(out)
            terminal = replace(context.terminal, columns=columns)
            drawn = draw(args, terminal, replace(handle, now=handle.clock.now()))
            out.write(render_frame(terminal, drawn, lines))
            out.flush()
            time.sleep(REDRAW_INTERVAL_S)
    finally:
        out.write(_LEAVE_SCREEN)
        out.flush()
        signal.signal(signal.SIGTERM, before)


def render_frame(terminal: Terminal, drawn: Iterable[str], lines: int) -> str:
    """Return one screen as one text, written over the last one: clearing first would flicker. The rest is cut off."""
    shown = [line for text in drawn for line in text.splitlines() or [""]]
    if len(shown) > lines:
        shown[lines - 1 :] = [terminal.style(f"… {len(shown) - lines + 1} more lines", "dim")]
    return _CURSOR_HOME + "\n".join(f"{line}{_CLEAR_LINE}" for line in shown) + _CLEAR_SCREEN


def _screen_size(out: TextIO) -> tuple[int, int]:
    """Return columns and lines. Read for each frame: the window may have been resized."""
    size = os.get_terminal_size(out.fileno())
    return size.columns or 80, size.lines or 24


def _raise_interrupt(number: int, at: FrameType | None) -> None:  # noqa: ARG001 -- the shape of a handler
    """End as Ctrl+C does, so that SIGTERM does not leave the terminal on its alternate screen."""
    raise KeyboardInterrupt
