"""The `source:` of an agentd workflow -> the trigger keys of a schedule."""

from collections.abc import Mapping

from herdbeat.codes import Code
from herdbeat.config.foreign import warn_cron_day_semantics
from herdbeat.config.guess import find_closest_match
from herdbeat.config.keys.agentd import SOURCE_TABLES, UNSUPPORTED_SOURCES
from herdbeat.config.report import Diagnostics
from herdbeat.errors import did_you_mean_suffix
from herdbeat.located import ConfigNode, Scalar

_POLLED_ITEMS = {"github_issues": "issues", "github_pull_requests": "pull_requests"}
_DEFAULT_POLL_INTERVAL_S = 60


def translate_source(workflow: ConfigNode, diagnostics: Diagnostics) -> dict[str, ConfigNode] | None:
    """What fires it, in our keys; None after it was said why nothing can."""
    source = workflow.find(("source",))
    kind = source.child("type")
    if kind is None or not isinstance(kind.value, str):
        hint = "Add type: cron, delay, webhook, manual or github_issues."
        diagnostics.error(Code.MISSING_KEY, 'The source needs "type".', source.report_location, hint)
        return None
    if kind.value not in SOURCE_TABLES:
        _report_unsupported_source(kind, diagnostics)
        return None
    errors_before = diagnostics.error_count
    SOURCE_TABLES[kind.value].validate(source, diagnostics)
    if diagnostics.error_count > errors_before:
        return None
    _warn_unused_poll_interval(workflow, kind, diagnostics)
    if kind.value == "cron":
        warn_cron_day_semantics(source.find(("expression",)), diagnostics)
    return _translate_trigger(workflow, source, kind.value)


def _translate_trigger(workflow: ConfigNode, source: ConfigNode, kind: str) -> dict[str, ConfigNode]:
    if kind in _POLLED_ITEMS:
        return _translate_polling(workflow, source, kind)
    keys = {"type": source.find(("type",))}
    renamed = {"expression": "cron", "run_at": "at", "secret": "secret"}
    for name, child in source.items():
        if name in renamed:
            keys[renamed[name]] = child
    return keys


def _translate_polling(workflow: ConfigNode, source: ConfigNode, kind: str) -> dict[str, ConfigNode]:
    """Polling is an interval with a work source. agentd marks nothing on GitHub: it remembers what it took."""
    here = source.find(("type",))
    poll = workflow.child("poll_interval")
    # agentd takes 0 and then asks GitHub without a pause; once a second is as eager as we get.
    seconds = max(1, int(str(poll.value))) if poll is not None else _DEFAULT_POLL_INTERVAL_S
    owner, repo = source.find(("owner",)), source.find(("repo",))
    work: dict[str, ConfigNode] = {
        "type": _with_value(here, "github"),
        "repo": _with_value(repo, f"{owner.value}/{repo.value}"),
        "item": _with_value(here, _POLLED_ITEMS[kind]),
        "claim": _with_value(here, "store"),
        "exclude_labels": ConfigNode([], here.location),
    }
    labels = source.child("labels")
    if labels is not None:
        work["filter_labels"] = labels
    work |= {name: child for name, child in source.items() if name in ("state", "assignee")}
    return {
        "type": _with_value(here, "interval"),
        "interval": _with_value(poll or here, f"{seconds}s"),
        "work_source": ConfigNode(work, source.location, source.key),
    }


def _with_value(node: ConfigNode, value: Scalar) -> ConfigNode:
    """Another value in the same place."""
    return ConfigNode(value, node.location, node.key, raw=str(value))


def _report_unsupported_source(kind: ConfigNode, diagnostics: Diagnostics) -> None:
    if kind.value in UNSUPPORTED_SOURCES:
        message = f'Workflows of type "{kind.value}" are not served; this one is left out.'
        diagnostics.warning(Code.NOT_SERVED, message, kind.location, f"Served are {_join_names(SOURCE_TABLES)}.")
        return
    guess = find_closest_match(str(kind.value), SOURCE_TABLES)
    diagnostics.error(
        Code.INVALID_VALUE,
        f'"{kind.value}" is not a type of source{did_you_mean_suffix(guess)}',
        kind.location,
        f"Write {_join_names(SOURCE_TABLES)}.",
    )


def _join_names(names: Mapping[str, object]) -> str:
    return ", ".join(names)


def _warn_unused_poll_interval(workflow: ConfigNode, kind: ConfigNode, diagnostics: Diagnostics) -> None:
    poll = workflow.child("poll_interval")
    if poll is not None and kind.value not in _POLLED_ITEMS:
        message = f'"poll_interval" has no effect on a {kind.value} source.'
        diagnostics.warning(Code.NOT_SERVED, message, poll.report_location, "Remove it if it misleads.")
