"""Who a Python program acts for: the name that its beats, pauses and hints carry."""

import getpass
import os

PROGRAM_ACTOR = "program"
"""Who triggers by itself. A machine, so what a person has paused or disabled stays so."""


def get_current_actor() -> str:
    """`human:you`: whoever runs the program. A container may not know its own user."""
    try:
        return f"human:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"human:{os.getuid()}"
