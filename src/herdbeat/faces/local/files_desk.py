"""What can be asked of a running fleet about what it consists of: apply its files now, make something without one."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from herdbeat.app import load_config
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.events import EventListener, null_listener
from herdbeat.faces.local.server import ControlRequest, RequestHandler
from herdbeat.scheduler.arrange import ApplyResult
from herdbeat.serve import RunningFleet, replace_fleet
from herdbeat.service.applying import (
    PARTIAL_FILE_KINDS,
    build_partial_fleet,
    read_stored_fleet,
    require_valid_fleet,
    serialize_apply_result,
)
from herdbeat.service.making import execute_upsert, upsert_from_json
from herdbeat.service.objects import JsonObject
from herdbeat.service.reloading import load_in_thread, publish_applied, restart_required
from herdbeat.service.state_file import import_states, imported_states_from_rows


class FleetHandlers:
    """Answers for one fleet at work. Files are read here, with this process's own environment."""

    def __init__(
        self,
        fleet: Fleet,
        running_fleet: RunningFleet,
        clock: Clock,
        environ: Mapping[str, str],
        base: Path,
        publish: EventListener = null_listener,
    ) -> None:
        self._fleet = fleet
        self._running_fleet = running_fleet
        self._clock = clock
        self._environ = environ
        self._base = base
        self._publish = publish

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        return {"apply": self.apply, "make": self.upsert, "remember": self.import_state}

    async def apply(self, request: ControlRequest) -> JsonObject:
        """`path` names the files, `who` wants it."""
        path, who = request.get("path"), request.get("who")
        if not isinstance(path, str) or not isinstance(who, str):
            raise UsageError("The request has no path or no author.", hint='Send "path" and "who" as texts.')
        fleet, is_whole = await load_in_thread(lambda: self._read(path))
        result = await self.apply_fleet(fleet, who, is_whole=is_whole)
        publish_applied(self._publish, self._clock.now(), result, restart_required(self._fleet, fleet))
        return {**serialize_apply_result(result), "pid": os.getpid()}

    async def upsert(self, request: ControlRequest) -> JsonObject:
        """`making` is what is to be made, changed or removed."""
        command = upsert_from_json(request.get("making"))
        done = await self._running_fleet.store.write(lambda tx: execute_upsert(tx, self._clock.now(), command))
        self._running_fleet.spec_cache.clear()
        self._running_fleet.node.wake()
        return done

    async def import_state(self, request: ControlRequest) -> JsonObject:
        """`memories` are rows of a state file, `who` wants them taken over."""
        who = request.get("who")
        try:
            states = imported_states_from_rows(request.get("memories"))
        except (TypeError, ValueError) as error:
            raise UsageError(f"The memories cannot be read: {error}.", hint="Send rows of five.") from error
        if not isinstance(who, str):
            raise UsageError("The request has no author.", hint='Send "who" as a text.')
        now = self._clock.now()
        done = await self._running_fleet.store.write(lambda tx: import_states(tx, now, states, who))
        self._running_fleet.node.wake()
        return asdict(done)

    async def apply_fleet(self, fleet: Fleet, who: str = "files", *, is_whole: bool = True) -> ApplyResult:
        return await replace_fleet(self._running_fleet, fleet, self._clock.now(), who, is_whole=is_whole)

    def _read(self, path: str) -> tuple[Fleet, bool]:
        load_result = load_config(path, self._environ, self._base)
        if load_result.kind not in PARTIAL_FILE_KINDS:
            return require_valid_fleet(load_result), True
        return build_partial_fleet(
            self._fleet, load_result, read_stored_fleet(self._running_fleet.store.location)
        ), False
