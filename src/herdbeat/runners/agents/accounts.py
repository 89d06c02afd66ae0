"""The account of an agent: the login whose usage limit it shares with every agent that uses the same one. Pure."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress

from herdbeat.domain.references import MissingVariable, resolve_references
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec
from herdbeat.runners.agents.presets import Preset, resolve_preset

_HASH_KEY = b"herdbeat account"
"""The same on every node: two nodes with one login must name it alike."""


def default_account(preset: Preset, environment: Mapping[str, str]) -> str:
    """Return the name of the login that a CLI finds in this environment, without telling anything about its secret.

    A login is identified by the first login variable that is set, else by the folder that has the credentials.
    """
    login = next((environment[name] for name in preset.login_variables if environment.get(name)), None)
    if login is None:
        homes = (environment[name] for name in (*preset.inherited_env, "HOME") if environment.get(name))
        login = next(homes, "")
    digest = hashlib.blake2b(login.encode("utf-8", "surrogateescape"), key=_HASH_KEY, digest_size=4).hexdigest()
    return f"{preset.name}-{digest}"


def find_login(spec: AgentSpec, environ: Mapping[str, str]) -> str | None:
    """Return the account of an agent that names none, as its first run would find it; None if it has no login."""
    preset = None if spec.runtime == COMMAND_RUNTIME else resolve_preset(spec)
    with suppress(MissingVariable):  # its runs are not tried
        values = resolve_references(spec.env_values, spec.variables, environ)
        return None if preset is None else default_account(preset, {**environ, **values})
    return None
