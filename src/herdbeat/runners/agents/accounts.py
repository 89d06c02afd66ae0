"""The account of an agent: the login whose usage limit it shares with every agent that uses the same one. Pure."""

import hashlib
from collections.abc import Iterable, Mapping

from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec, Target
from herdbeat.runners.agents.presets import Preset, resolve_preset

_HASH_KEY = b"herdbeat account"
"""The same on every node: two nodes with one login must name it alike."""


def default_account(preset: Preset, environment: Mapping[str, str]) -> str:
    """Return the name of the login that a CLI finds in this environment, without telling anything about its secret.

    A login is told apart by the first login variable that is set, else by the folder that has the credentials.
    """
    login = next((environment[name] for name in preset.login_variables if environment.get(name)), None)
    if login is None:
        homes = (environment[name] for name in (*preset.inherited_env, "HOME") if environment.get(name))
        login = next(homes, "")
    digest = hashlib.blake2b(login.encode("utf-8", "surrogateescape"), key=_HASH_KEY, digest_size=4).hexdigest()
    return f"{preset.name}-{digest}"


def find_logins(targets: Iterable[Target], environ: Mapping[str, str]) -> dict[str, str]:
    """Return by target the account of each agent that names none, as its first run would find it."""
    found = {}
    for target in targets:
        spec = target.spec
        if isinstance(spec, AgentSpec) and spec.runtime != COMMAND_RUNTIME and not spec.account:
            preset = resolve_preset(spec)
            if preset is not None:
                found[target.name] = default_account(preset, {**environ, **spec.env_values})
    return found
