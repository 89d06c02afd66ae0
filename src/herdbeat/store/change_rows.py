"""Rows about changes and hints, read. Apart from what writes them: who only looks must not load the writer's side."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from herdbeat.domain.change import Change, ChangeData, ChangeKind
from herdbeat.domain.records import HintRecord
from herdbeat.domain.schedule import display_name
from herdbeat.store.micros import from_micros


def read_change(row: Sequence[Any]) -> Change:
    number, at, who, what, subject, before, after = row
    return Change(
        id=number,
        at=from_micros(at),
        who=who,
        what=ChangeKind(what),
        subject=subject,
        before=_read_change_data(before),
        after=_read_change_data(after),
    )


def read_hint(row: Sequence[Any]) -> HintRecord:
    number, target, name, origin, every, at, reason, expires_at, created_at, ended_at, ended_by = row
    return HintRecord(
        id=number,
        schedule=display_name(target, name),
        origin=origin,
        every=None if every is None else timedelta(microseconds=every),
        at=from_micros(at),
        reason=reason,
        expires_at=from_micros(expires_at),
        created_at=from_micros(created_at),
        ended_at=from_micros(ended_at),
        ended_by=ended_by or "",
    )


def _read_change_data(text: str | None) -> ChangeData | None:
    found: ChangeData | None = None if text is None else json.loads(text)
    return found
