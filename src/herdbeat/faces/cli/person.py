"""Who asks, and why: what beats, hints, pauses and the record of changes carry."""

import os
from pwd import getpwuid

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.world import World


def person(world: World) -> str:
    """`human:you`. Not from the environment alone: a service has none, and a container may not know its own user."""
    return f"human:{world.environ.get('USER') or _login()}"


def reason_of(given: Given) -> str:
    """What --reason says; empty without one."""
    return (given.value(flags.REASON) or "").strip()


def _login() -> str:
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
