"""Who asks, and why: what beats, hints, pauses and the change log carry."""

import os
from pwd import getpwuid

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.parser import ParsedArgs
from herdbeat.service.commands.base import Actor


def current_actor(context: Context) -> Actor:
    """`human:you`. Not from the environment alone: a service has none, and a container may not know its own user."""
    return Actor(name=f"human:{context.environ.get('USER') or _login_name()}")


def parse_reason(args: ParsedArgs) -> str:
    """What --reason says; empty without one."""
    return (args.value(flags.REASON) or "").strip()


def _login_name() -> str:
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
