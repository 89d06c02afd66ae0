"""Rows about changes and hints, read. Apart from what writes them: who only looks must not load the writer's side."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from herdbeat.domain.change import Change, Facts, What
from herdbeat.domain.records import HintRecord
from herdbeat.domain.schedule import label_of
from herdbeat.store.micros import from_micros


def read_change(row: Sequence[Any]) -> Change:
    number, at, who, what, subject, before, after = row
    return Change(
        id=number,
        at=from_micros(at),
        who=who,
        what=What(what),
        subject=subject,
        before=_facts(before),
        after=_facts(after),
    )


def read_hint(row: Sequence[Any]) -> HintRecord:
    number, target, name, origin, every, at, reason, expires_at, created_at, ended_at, ended_by = row
    return HintRecord(
        id=number,
        schedule=label_of(target, name),
        origin=origin,
        every=None if every is None else timedelta(microseconds=every),
        at=from_micros(at),
        reason=reason,
        expires_at=from_micros(expires_at),
        created_at=from_micros(created_at),
        ended_at=from_micros(ended_at),
        ended_by=ended_by or "",
    )


def _facts(text: str | None) -> Facts | None:
    found: Facts | None = None if text is None else json.loads(text)
    return found
