"""The ledger as the tools of agents' runs need it: tokens, notes and reports. One short transaction for each."""

import importlib.util
import secrets
from pathlib import Path

from herdbeat.domain.agent_tools import RunReport
from herdbeat.runners.agents.own_tools import OwnTools, RunGrant
from herdbeat.service.run_tokens import make_run_token
from herdbeat.store.base import Store, Transaction
from herdbeat.store.location import StoreLocation, resolve_state_dir

_KEY_BYTES = 32


class LedgerRunDesk:
    """Gives out the tokens of runs. Only runs of agents that are offered tools come here."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(self, run_id: int) -> RunGrant:
        new_key = secrets.token_hex(_KEY_BYTES)

        def read(tx: Transaction) -> tuple[str, str]:
            return tx.run_key_claim(new_key), tx.wake_note(run_id)

        key, note = await self._store.write(read)
        return RunGrant(token=make_run_token(key, run_id), note=note)

    async def read_report(self, run_id: int) -> RunReport | None:
        return await self._store.write(lambda tx: tx.run_report(run_id))


def open_own_tools(store: Store, location: StoreLocation, *, url: str, public_url: str) -> OwnTools | None:
    """Return how agents reach our MCP server; None without the package that speaks its protocol."""
    if importlib.util.find_spec("mcp") is None:
        return None
    state_dir = resolve_state_dir(location).absolute() if isinstance(location, Path) else None
    return OwnTools(desk=LedgerRunDesk(store), state_dir=state_dir, url=url, public_url=public_url)
