"""The prompt, input and reason of a manual run, as stored in the ledger: for `show` and `explain`."""

import json
from collections.abc import Iterator

from herdbeat.domain.manual_request import ManualRequest
from herdbeat.domain.trigger import is_manual_id
from herdbeat.errors import truncate_for_message
from herdbeat.redaction import redact_data
from herdbeat.store.reader import Reader

MAX_SHOWN_CHARS = 200


def find_request(reader: Reader, beat_id: int, dedup_id: str) -> ManualRequest | None:
    """Return what was given, without secrets; None if nothing was, or if the beat was not made by hand."""
    text = reader.beat_data(beat_id) if is_manual_id(dedup_id) else None
    data = redact_data(json.loads(text)) if text else None
    return ManualRequest.from_data(data) if isinstance(data, dict) else None


def describe_request(request: ManualRequest | None) -> Iterator[tuple[str, str]]:
    """Yield its parts as a subject and a text of one line."""
    if request is None:
        return
    if request.reason:
        yield "asked for", request.reason
    if request.prompt:
        yield "prompt", f"given for this run: {truncate_for_message(request.prompt, MAX_SHOWN_CHARS)}"
    if request.has_input:
        yield "input", f"given for this run: {truncate_for_message(request.input, MAX_SHOWN_CHARS)}"
