"""Rules over history: what they would have done, and which fields the responses really had."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.rule_state import RuleStep
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.selection import Selection
from herdbeat.error_codes import Code
from herdbeat.errors import Problem, Severity, SourceLocation, UsageError, did_you_mean_suffix
from herdbeat.rules.backtest import Backtest, backtest_rules
from herdbeat.rules.expression import Call, Node, Read, children, find_reads
from herdbeat.rules.rule import Rule, load_rules
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.store.reader import Filter, Reader

MAX_BACKTEST_RUNS = 20_000
FIELD_SAMPLE_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """A backtest of the rules of one schedule, and the fields that no response had."""

    schedule: str
    backtest: Backtest
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRules:
    """The rules of a schedule in the order of its file, each with its outcome after the newest run."""

    label: str
    rules: tuple[tuple[Rule, RuleStep | None], ...]


def list_rules(reader: Reader, selection: Selection) -> list[ScheduleRules]:
    """Return the schedules of a selection that have rules. Raises NotFound."""
    found = [each for each in select_schedules(reader, selection) if each.plan.policies.adapt]
    return [_read_rules(reader, each) for each in found]


def _read_rules(reader: Reader, record: ScheduleRecord) -> ScheduleRules:
    steps = reader.rule_steps(record.id)
    rules = load_rules(record.plan.policies.adapt)
    return ScheduleRules(label=record.label, rules=tuple((rule, steps.get(rule.name)) for rule in rules))


def replay_rules(reader: Reader, record: ScheduleRecord, since: datetime) -> RuleTest:
    """Replay the rules of a schedule over its runs since then. Raises UsageError if it has none."""
    policies = record.plan.policies
    if not policies.adapt:
        raise UsageError(f"{record.label} has no rules.", hint="Add them to the schedule under adapt:")
    rules = load_rules(policies.adapt)
    newest_first = reader.past_runs(record.id, limit=MAX_BACKTEST_RUNS)
    runs = [run for run in reversed(newest_first) if run.started_at >= since]
    backtest = backtest_rules(
        rules,
        runs,
        interval=record.plan.trigger.interval,
        min_interval=policies.limits.at_least,
        max_interval=policies.limits.at_most,
        tags=policies.tags,
    )
    warnings = tuple(find_missing_fields(rules, newest_first[:FIELD_SAMPLE_RUNS]))
    return RuleTest(schedule=record.label, backtest=backtest, warnings=warnings)


def find_unknown_fields(reader: Reader, schedules: Iterable[Schedule]) -> Iterator[Problem]:
    """Yield a warning for each field that a rule of these schedules reads, and that no response in the ledger has.

    The rules are those of the files, which may be newer than those of the ledger.
    """
    for schedule in schedules:
        known = reader.schedules(Filter(target=schedule.target, name=schedule.name, limit=1))
        if not schedule.policies.adapt or not known:
            continue
        runs = reader.past_runs(known[0].id, limit=FIELD_SAMPLE_RUNS)
        where = schedule.origin if isinstance(schedule.origin, SourceLocation) else None
        for message in find_missing_fields(load_rules(schedule.policies.adapt), runs):
            hint = f"Show a response: herdbeat show {schedule.label}"
            yield Problem(
                code=Code.UNKNOWN_FIELD, message=f"Rule {message}", where=where, hint=hint, severity=Severity.WARNING
            )


def find_missing_fields(rules: Sequence[Rule], runs: Sequence[PastRun]) -> Iterator[str]:
    """Yield a sentence for each field of the response that a rule reads and no response had.

    A field that the rule asks for with `has()` may be missing; it is named only if another one is spelled like it.
    """
    responses = [run.response for run in runs if isinstance(run.response, dict)]
    if not responses:
        return
    for rule in rules:
        expressions = [each for each in (rule.when, rule.until) if each is not None]
        optional = {path for each in expressions for path in _find_optional_paths(each.root)}
        for read in {read.path: read for each in expressions for read in each.places}.values():
            keys = _find_response_keys(read)
            missing = _find_missing_key(responses, keys) if keys else None
            if missing is None:
                continue
            field, similar = missing
            guess = next(iter(get_close_matches(field, similar, n=1, cutoff=0.6)), None)
            if guess is not None or not any(f"{read.path}.".startswith(f"{each}.") for each in optional):
                ending = did_you_mean_suffix(guess)
                yield f'{rule.name}: none of the last {len(responses)} responses has "{field}"{ending}'


def _find_response_keys(read: Read) -> tuple[str | int, ...]:
    """Return the keys inside of a response of this schedule; none if something else is read."""
    match read.root, read.keys:
        case "response", keys:
            return keys
        case "previous", ("response", *keys):
            return tuple(keys)
        case "runs", (int(), "response", *keys):
            return tuple(keys)
        case _:
            return ()


def _find_missing_key(responses: Sequence[object], keys: Sequence[str | int]) -> tuple[str, list[str]] | None:
    """Return the first of these keys that none of the responses has, and what they have in its place."""
    values = list(responses)
    for key in keys:
        if isinstance(key, int):
            values = [each[key] for each in values if isinstance(each, list) and len(each) > key]
            if not values:
                return None  # a list may well be shorter
            continue
        maps = [each for each in values if isinstance(each, dict)]
        values = [each[key] for each in maps if key in each]
        if not values:
            return key, sorted({name for each in maps for name in each})
    return None


def _find_optional_paths(node: Node) -> Iterator[str]:
    """Yield the places that an expression asks for with `has()`."""
    if isinstance(node, Call) and node.name == "has":
        yield from (read.path for read in find_reads(node))
    for child in children(node):
        yield from _find_optional_paths(child)
