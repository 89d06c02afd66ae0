"""What a child prints, on its way: into the log, into the tail that is stored, and perhaps into a response."""

import codecs
import json

from herdbeat.runners.log import RunLog, Stream
from herdbeat.runners.settings import RunnerSettings
from herdbeat.runners.tail import Tail

ERROR_CAP = 4096


class Capture:
    """Takes chunks as they come. Past the caps it only counts, so a child that prints a gigabyte costs as little
    memory as one that prints a page, and is never made to wait for us."""

    def __init__(self, log: RunLog, settings: RunnerSettings) -> None:
        self._log = log
        self._output = Tail(settings.output_cap)
        self._errors = Tail(ERROR_CAP)
        self._answer: bytearray | None = bytearray()
        self._answer_cap = settings.response_cap
        self._unlogged = 0
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream}

    def take_out(self, chunk: bytes) -> None:
        self._collect_answer(chunk)
        self._take(Stream.OUT, chunk)

    def take_err(self, chunk: bytes) -> None:
        self._errors.take(chunk)
        self._take(Stream.ERR, chunk)

    def close(self) -> None:
        """Write what the log still misses: half a letter, or the end of an output that was too long for it."""
        for stream, decoder in self._decoders.items():
            self._log.write(stream, decoder.decode(b"", final=True))
        if self._unlogged:
            end = self._output.text()[-self._unlogged :]
            self._log.note(
                f"{max(0, self._unlogged - len(end.encode()))} bytes are left out; the end of the output is:"
            )
            self._log.write_end(Stream.OUT, end)

    @property
    def output(self) -> str:
        """The end of stdout and stderr, in the order of their arrival."""
        return self._output.text()

    @property
    def last_error(self) -> str:
        """The last line on stderr: as a rule, the one that says why."""
        return self._errors.last_line()

    def response(self) -> object:
        """Stdout, if it is one JSON object and not too long; else None."""
        if not self._answer:
            return None
        try:
            found = json.loads(self._answer)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def _take(self, stream: Stream, chunk: bytes) -> None:
        self._output.take(chunk)
        if self._log.is_full:
            self._unlogged += len(chunk)
        else:
            self._log.write(stream, self._decoders[stream].decode(chunk))

    def _collect_answer(self, chunk: bytes) -> None:
        if self._answer is None:
            return
        self._answer += chunk
        start = self._answer[:64].lstrip()
        if len(self._answer) > self._answer_cap or (start and not start.startswith(b"{")):
            self._answer = None
