"""What can be asked of a running fleet about what it consists of: apply its files now, make something without one."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from herdbeat.app import read_configuration
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.events import Listener, nobody
from herdbeat.faces.local.server import Handler, Request
from herdbeat.scheduler.arrange import Arranged
from herdbeat.serve import Ready, serve_instead
from herdbeat.service.applying import PARTS, arranged_object, part_of, stored_in, usable
from herdbeat.service.making import make, making_from_json
from herdbeat.service.objects import Json
from herdbeat.service.reloading import read_beside, tell_applied, unheeded
from herdbeat.service.state_file import read_rows, remember_all


class FilesDesk:
    """Answers for one fleet at work. Files are read here, with this process's own environment."""

    def __init__(
        self, fleet: Fleet, ready: Ready, clock: Clock, environ: Mapping[str, str], base: Path, tell: Listener = nobody
    ) -> None:
        self._fleet = fleet
        self._ready = ready
        self._clock = clock
        self._environ = environ
        self._base = base
        self._tell = tell

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {"apply": self.apply, "make": self.make, "remember": self.remember}

    async def apply(self, request: Request) -> Json:
        """`path` names the files, `who` wants it."""
        path, who = request.get("path"), request.get("who")
        if not isinstance(path, str) or not isinstance(who, str):
            raise UsageError("The request has no path or no author.", hint='Send "path" and "who" as texts.')
        fleet, is_whole = await read_beside(lambda: self._read(path))
        arranged = await self.serve(fleet, who, is_whole=is_whole)
        tell_applied(self._tell, self._clock.now(), arranged, unheeded(self._fleet, fleet))
        return {**arranged_object(arranged), "pid": os.getpid()}

    async def make(self, request: Request) -> Json:
        """`making` is what is to be made, changed or removed."""
        making = making_from_json(request.get("making"))
        done = await self._ready.store.write(lambda tx: make(tx, self._clock.now(), making))
        self._ready.shelf.forget()
        self._ready.node.wake()
        return done

    async def remember(self, request: Request) -> Json:
        """`memories` are rows of a state file, `who` wants them taken over."""
        who = request.get("who")
        try:
            memories = read_rows(request.get("memories"))
        except (TypeError, ValueError) as error:
            raise UsageError(f"The memories cannot be read: {error}.", hint="Send rows of five.") from error
        if not isinstance(who, str):
            raise UsageError("The request has no author.", hint='Send "who" as a text.')
        now = self._clock.now()
        done = await self._ready.store.write(lambda tx: remember_all(tx, now, memories, who))
        self._ready.node.wake()
        return asdict(done)

    async def serve(self, fleet: Fleet, who: str = "files", *, is_whole: bool = True) -> Arranged:
        return await serve_instead(self._ready, fleet, self._clock.now(), who, is_whole=is_whole)

    def _read(self, path: str) -> tuple[Fleet, bool]:
        reading = read_configuration(path, self._environ, self._base)
        if reading.kind not in PARTS:
            return usable(reading), True
        return part_of(self._fleet, reading, stored_in(self._ready.store.place)), False
