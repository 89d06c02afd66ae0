"""Drawing a screen again and again: on the terminal's other page, so that everything is as before when it ends."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from types import FrameType
from typing import TextIO

from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.faces.cli.world import World

EVERY = 1.0
"""Seconds. Times on the screen tick, so it is drawn again even if nothing has happened."""

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The other page, no cursor, and no folding: a long line would push the others down."""

_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"

Draw = Callable[[Given, Terminal, Ledger], None]


def watch(given: Given, world: World, ledger: Ledger, draw: Draw) -> int:
    """Until Ctrl+C, which ends it as it ends every command. Raises UsageError where there is no screen."""
    if given.has(flags.JSON) or not world.terminal.out.isatty():
        raise UsageError("--watch needs a screen.", hint="Leave it out; or call the command again and again.")
    out = world.terminal.out
    before = signal.signal(signal.SIGTERM, _interrupt)
    out.write(_ENTER)
    try:
        while True:
            columns, lines = _size(out)
            terminal = replace(world.terminal, columns=columns)
            out.write(frame(given, terminal, replace(ledger, now=ledger.clock.now()), draw, lines))
            out.flush()
            time.sleep(EVERY)
    finally:
        out.write(_LEAVE)
        out.flush()
        signal.signal(signal.SIGTERM, before)


def frame(given: Given, terminal: Terminal, ledger: Ledger, draw: Draw, lines: int) -> str:
    """One picture in one piece, over the last one: clearing first would flicker. What does not fit is cut off."""
    page = StringIO()
    draw(given, replace(terminal, out=page), ledger)
    drawn = page.getvalue().splitlines()
    if len(drawn) > lines:
        drawn = [*drawn[: lines - 1], terminal.style(f"… {len(drawn) - lines + 1} more lines", "dim")]
    return _HOME + "\n".join(f"{line}{_REST_OF_LINE}" for line in drawn) + _REST_OF_SCREEN


def _size(out: TextIO) -> tuple[int, int]:
    """Asked anew for each picture: the window may have been resized."""
    size = os.get_terminal_size(out.fileno())
    return size.columns or 80, size.lines or 24


def _interrupt(number: int, at: FrameType | None) -> None:  # noqa: ARG001 -- the shape of a handler
    """Being told to end is no reason to leave the terminal on its other page."""
    raise KeyboardInterrupt
