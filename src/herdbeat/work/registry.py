"""Opens the work source of a schedule: one entry per kind."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.clock import Clock
from herdbeat.domain.references import VARIABLES_KEY, MissingVariable, resolve_data
from herdbeat.durations import parse_duration
from herdbeat.errors import truncate_for_message
from herdbeat.redaction import register_variables
from herdbeat.work.base import FailureCause, Sleep, WorkSource, WorkSourceFailed

if TYPE_CHECKING:
    from herdbeat.work.command import ProgramWatch

Spec = Mapping[str, object]
"""A `work_source:` as the configuration has stored it: plain data, with every default filled in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What a source may use: a clock, a way to wait, and the variables of this node.

    Tokens are read from `environment`; the programs of a command source get `program_environment` and no more, and
    end with their node through `programs`.
    """

    clock: Clock
    environment: Mapping[str, str] = field(repr=False)
    program_environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    sleep: Sleep = asyncio.sleep
    programs: "ProgramWatch | None" = None


def open_work_source(spec: Spec, context: SourceContext) -> WorkSource:
    """Return the source; `close` it at the end. Raises WorkSourceFailed if the specification cannot work."""
    spec, kind = resolve_source(spec, context), str(spec.get("type"))
    if kind not in _KINDS:
        text = f'There is no work source of type "{truncate_for_message(kind)}".'
        raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint=f"Write {', '.join(_KINDS)}.")
    return _KINDS[kind](spec, context)


def resolve_source(spec: Spec, context: SourceContext) -> Spec:
    """Return the specification with the values of its variables. Raises WorkSourceFailed if one is not set."""
    names = spec.get(VARIABLES_KEY)
    if not isinstance(names, list | tuple):
        return spec
    register_variables(map(str, names), context.environment)
    try:
        return resolve_data(spec, context.environment)
    except MissingVariable as error:
        raise WorkSourceFailed(error.message, cause=FailureCause.CONFIG, hint=error.hint) from error


class OpenSources:
    """The sources of one node, opened on first use: their caches and limits hold for all schedules that share one."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._sources: dict[str, WorkSource] = {}

    def get(self, spec: Spec) -> WorkSource:
        """Return the source of a specification. Raises WorkSourceFailed if it cannot work."""
        spec = resolve_source(spec, self._context)  # a source with another token is another one
        name = json.dumps(dict(spec), sort_keys=True, default=str)
        if name not in self._sources:
            self._sources[name] = open_work_source(spec, self._context)
        return self._sources[name]

    async def close(self) -> None:
        for source in self._sources.values():
            await source.close()
        self._sources.clear()


def _open_github(spec: Spec, context: SourceContext) -> WorkSource:
    from herdbeat.work import github, github_client, github_tokens  # noqa: PLC0415  they need aiohttp
    from herdbeat.work.http import HttpTransport  # noqa: PLC0415

    claim = github.ClaimMode(str(spec.get("claim", "labels")))
    settings = github.GitHubSettings(
        repo=str(spec.get("repo") or ""),
        items=github.GitHubItems(str(spec.get("item", "issues"))),
        **_labels(spec),
        filter_labels=_texts(spec, "filter_labels"),
        exclude_labels=_texts(spec, "exclude_labels"),
        state=str(spec.get("state", "open")),
        assignee=str(spec.get("assignee") or ""),
        claim=claim,
        offers_failed_again=bool(spec.get("cleanup_on_failure", True)),
        # agentd, whose files are read as claim: store, takes whatever matches.
        checks_author=bool(spec.get("check_author", claim is github.ClaimMode.LABELS)),
        trusted_bots=_texts(spec, "trusted_bots"),
    )
    api_url = str(spec.get("api_url") or github_client.PUBLIC_API_URL)
    auth = _mapping(spec, "auth")
    transport = HttpTransport()
    tokens: github_tokens.TokenProvider
    if "app_id" in auth:
        tokens = github_tokens.AppToken(
            transport,
            context.clock,
            app_id=str(auth["app_id"]),
            installation_id=int(str(auth.get("installation_id", 0))),
            private_key_file=Path(str(auth.get("private_key_file", ""))),
            api_url=api_url,
        )
    else:
        tokens = github_tokens.PersonalToken(_token(auth, "GITHUB_TOKEN", context))
    client = github_client.GitHubClient(transport, tokens, context.clock, context.sleep, api_url=api_url)
    return github.GitHubSource(settings, client, context.sleep)


def _open_linear(spec: Spec, context: SourceContext) -> WorkSource:
    from herdbeat.work import linear  # noqa: PLC0415  it needs aiohttp
    from herdbeat.work.http import HttpTransport  # noqa: PLC0415

    settings = linear.LinearSettings(
        api_key=_token(_mapping(spec, "auth"), "LINEAR_API_KEY", context),
        **_labels(spec),
        team_key=str(spec.get("team") or ""),
        project=str(spec.get("project") or ""),
        states=_texts(spec, "states"),
        filter_labels=_texts(spec, "filter_labels"),
        exclude_labels=_texts(spec, "exclude_labels"),
        done_state=str(spec.get("done_state") or ""),
        offers_failed_again=bool(spec.get("cleanup_on_failure", True)),
    )
    url = str(spec.get("api_url") or linear.LINEAR_URL)
    return linear.LinearSource(settings, HttpTransport(), context.clock, context.sleep, url=url)


def _open_directory(spec: Spec, context: SourceContext) -> WorkSource:  # noqa: ARG001  one shape for all kinds
    from herdbeat.work.directory import DirectorySettings, DirectorySource  # noqa: PLC0415  like all kinds

    path = Path(str(spec.get("path") or ""))
    if not path.is_absolute():
        text = "The path of a directory work source is not absolute."
        raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Write path: the folder with one file per item.")
    settings = DirectorySettings(path=path, offers_failed_again=bool(spec.get("cleanup_on_failure", True)))
    return DirectorySource(settings)


def _open_command(spec: Spec, context: SourceContext) -> WorkSource:
    from herdbeat.work.command import VERB_TIMEOUT, CommandSettings, CommandSource  # noqa: PLC0415  like all kinds

    folder = spec.get("working_directory")
    names = _texts(spec, "env")
    environment = {name: context.environment[name] for name in names if name in context.environment}
    settings = CommandSettings(
        list_argv=_texts(spec, "list"),
        claim_argv=_texts(spec, "claim"),
        report_argv=_texts(spec, "report"),
        release_argv=_texts(spec, "release"),
        timeout=VERB_TIMEOUT if spec.get("timeout") is None else parse_duration(str(spec["timeout"])),
        working_directory=Path(str(folder)) if folder else None,
        environment={**context.program_environment, **environment},
        secrets=tuple(environment.values()),
    )
    return CommandSource(settings, context.programs)


_KINDS: dict[str, Callable[[Spec, SourceContext], WorkSource]] = {
    "github": _open_github,
    "linear": _open_linear,
    "directory": _open_directory,
    "command": _open_command,
}


def _labels(spec: Spec) -> dict[str, str]:
    labels = _mapping(spec, "labels")
    return {name: str(labels[name]) for name in ("ready", "in_progress") if name in labels}


def _mapping(spec: Spec, name: str) -> Spec:
    found = spec.get(name)
    return found if isinstance(found, Mapping) else {}


def _texts(spec: Spec, name: str) -> tuple[str, ...]:
    found = spec.get(name)
    return tuple(str(each) for each in found) if isinstance(found, list | tuple) else ()


def _token(auth: Spec, default: str, context: SourceContext) -> str:
    return context.environment.get(str(auth.get("token_env", default)), "")
