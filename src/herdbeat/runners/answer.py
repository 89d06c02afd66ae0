"""What a function returned, as an outcome: JSON is stored, the rest is shown."""

import json

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.runners.settings import RunnerSettings

EMPTY_SUCCESS = Outcome(status=RunStatus.SUCCEEDED)
"""Shared by every run that has nothing to say."""


def to_outcome(value: object, settings: RunnerSettings) -> Outcome:
    """An Outcome is taken as it is. JSON is copied, so that the function may go on changing its own."""
    if isinstance(value, Outcome):
        return value
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return Outcome(status=RunStatus.SUCCEEDED, output=repr(value)[: settings.output_cap])
    if len(text) > settings.response_cap:
        note = f"The answer is not stored: it has {len(text)} bytes, and at most {settings.response_cap} are kept."
        return Outcome(status=RunStatus.SUCCEEDED, output=text[: settings.output_cap], summary=note)
    return Outcome(status=RunStatus.SUCCEEDED, response=json.loads(text))
