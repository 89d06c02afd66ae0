"""Which schedule a call is for, and the secrets of its signature. Both are kept for a second: calls come in bursts."""

import time
from dataclasses import dataclass

from herdbeat.bootstrap.handle import Reader
from herdbeat.bootstrap.server_spec import read_environment
from herdbeat.domain.token import TokenRole, TokenScope
from herdbeat.errors import NotFound
from herdbeat.redaction import register_secrets
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.tokens import hash_token
from herdbeat.service.queries.webhooks import find_hook_by_id, list_hooks, read_hook
from herdbeat.service.webhooks.intake import HookSchedule

CACHE_S = 1.0
LIST_CACHE_S = 5.0
MAX_CACHED_HOOKS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHook:
    hook: HookSchedule
    secrets: tuple[str, ...]


class HookDirectory:
    """Reads the ledger and the environment, in a thread of a request."""

    def __init__(self, gateway: FleetGateway) -> None:
        self._gateway = gateway
        self._found: dict[tuple[str, str], tuple[float, FoundHook | None]] = {}
        self._all: tuple[float, tuple[HookSchedule, ...]] = (float("-inf"), ())

    def cached(self, target: str, name: str) -> tuple[bool, FoundHook | None]:
        """Return whether it is known, without a look into the ledger."""
        looked_at, found = self._found.get((target, name), (float("-inf"), None))
        return time.monotonic() - looked_at < CACHE_S, found

    def find(self, target: str, name: str) -> FoundHook | None:
        """Return the hook of a schedule; None if there is none. An empty target looks by id. Raises HerdbeatError."""
        is_known, found = self.cached(target, name)
        if is_known:
            return found
        if len(self._found) >= MAX_CACHED_HOOKS:
            self._found.clear()
        try:
            with self._gateway.open() as handle:
                reader = handle.require_reader()
                hook = read_hook(reader, target, name) if target else find_hook_by_id(self._list_all(reader), name)
        except NotFound:
            hook = None
        found = None if hook is None else FoundHook(hook=hook, secrets=self._read_secrets(hook))
        self._found[target, name] = (time.monotonic(), found)
        return found

    def find_token(self, hook: HookSchedule, text: str) -> str:
        """Return the name of a token that may call this hook; empty if there is none."""
        with self._gateway.open() as handle:
            found = handle.require_reader().find_token(hash_token(text))
            if found is None or not found.is_valid(handle.now):
                return ""
        scope = TokenScope.parse(found.scope)
        names = (hook.label, hook.id_text)
        return found.name if scope and scope.role is TokenRole.HOOK and scope.subject in names else ""

    def _list_all(self, reader: Reader) -> tuple[HookSchedule, ...]:
        """A caller that tries many ids must not make us read all schedules for each of them."""
        listed_at, hooks = self._all
        if time.monotonic() - listed_at > LIST_CACHE_S:
            hooks = tuple(list_hooks(reader))
            self._all = (time.monotonic(), hooks)
        return hooks

    def _read_secrets(self, hook: HookSchedule) -> tuple[str, ...]:
        environ = read_environment(self._gateway.spec.home, self._gateway.environ)
        secrets = [environ[name] for name in hook.auth.secret_env if environ.get(name)]
        if hook.auth.has_file_secret:
            secrets += self._read_file_secret(hook)
        register_secrets(secrets)
        return tuple(secrets)

    def _read_file_secret(self, hook: HookSchedule) -> list[str]:
        """A secret that is written in the file itself is read from there: the ledger does not have it.

        Raises HerdbeatError while the file is invalid: its sender shall try again, and not be called an impostor.
        """
        schedule = self._gateway.load_own_fleet().fleet.schedule(hook.id_text)
        return [schedule.secret] if schedule is not None and schedule.secret else []
