"""`herdbeat explain`: three questions, one trace."""

import json

from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.explanations import show_explanation
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.world import World
from herdbeat.service.explain import Explanation, explanation_object
from herdbeat.service.questions import find_run, find_schedule
from herdbeat.service.why import why_next, why_run, why_then


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        explanation = _explain(given, ledger)
        if given.has(flags.JSON):
            world.terminal.say(json.dumps(explanation_object(explanation), indent=2, ensure_ascii=False))
        else:
            show_explanation(world.terminal, ledger, explanation)
    return 0


def _explain(given: Given, ledger: Ledger) -> Explanation:
    """A schedule's name comes first: a target may well be called `beef`, which is also the id of a run."""
    reader, selector = ledger.opened(), given.words[0]
    try:
        record = find_schedule(reader, selector)
    except NotFound:
        found = find_run(reader, selector)
        if found is None and (written := ledger.only_written(selector)):
            raise written from None
        if found is None:
            raise
        return why_run(reader, found, ledger.now, ledger.zone)
    at = given.value(flags.AT)
    if at is None:
        return why_next(reader, record, ledger.now, is_served=ledger.holder is not None)
    return why_then(reader, record, read_past(at, ledger.now, ledger.zone), ledger.now, ledger.zone)
