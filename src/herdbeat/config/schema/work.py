"""The keys of a `work_source:`."""

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import ARGV, DURATION, PATH, REPO, TEXT, TEXTS, URL, VARIABLE_NAME
from herdbeat.config.schema.table import AnyOf, Field, Table
from herdbeat.config.schema.types import Boolean, Choice, Integer
from herdbeat.error_codes import Code

_READY = Field("ready", TEXT, "Label of items that are ready.", "ready")
_IN_PROGRESS = Field("in_progress", TEXT, "Label set on an item while it is in progress.", "agent-working")
LABELS = Table("Labels", _READY, _IN_PROGRESS)
AUTH = Table(
    "An auth",
    Field(
        "token_env",
        VARIABLE_NAME,
        "Environment variable with the token.",
        "GITHUB_TOKEN",
        unset="LINEAR_API_KEY for linear",
    ),
    Field("app_id", TEXT, "github: the id of a GitHub App, instead of a token."),
    Field("installation_id", Integer(1, 2**62), "github: the installation of that App."),
    Field("private_key_file", PATH, "github: the private key of that App, as a PEM file."),
)
_REQUIRED_KEYS = {
    "directory": ("path", "Add path: the folder with one file per item."),
    "command": ("list", "Add list: [program, argument], which prints one item per line as JSON."),
}


class WorkSourceTable(Table):
    """Also reports what a type of source needs. A missing repository may be the agent's: build_schedule checks it."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        kind = str(node.find(("type",)).value)
        key, hint = _REQUIRED_KEYS.get(kind, ("type", ""))
        if node.child(key) is None and kind in _REQUIRED_KEYS:
            diagnostics.error(Code.MISSING_KEY, f'A {kind} work source needs "{key}".', node.report_location, hint)
        _check_labels(node, diagnostics)
        _check_claim(node, kind, diagnostics)


def _check_labels(node: ConfigNode, diagnostics: Diagnostics) -> None:
    """A claim swaps the two labels, and GitHub separates names by commas."""
    defaults = {"ready": "ready", "in_progress": "agent-working"}
    labels = node.find(("labels",))
    names = {
        name: child.value if (child := labels.child(name)) is not None else text for name, text in defaults.items()
    }
    has_comma = any(isinstance(name, str) and "," in name for name in names.values())
    is_same = len({str(name).casefold() for name in names.values()}) == 1
    if has_comma or is_same:
        message = "The labels ready and in_progress are equal." if is_same else "A label has a comma in its name."
        hint = "Name two different labels without a comma."
        diagnostics.error(Code.INVALID_VALUE, message, labels.report_location, hint)


def _check_claim(node: ConfigNode, kind: str, diagnostics: Diagnostics) -> None:
    claim = node.child("claim")
    if claim is None or isinstance(claim.value, list) == (kind == "command"):
        return
    message = "claim is a program of a command source, and labels or store of a github source."
    diagnostics.error(Code.INVALID_VALUE, message, claim.report_location, "Write claim: labels, or remove it.")


WORK_SOURCE_TABLE = WorkSourceTable(
    "A work source",
    Field("type", Choice(("github", "directory", "command", "linear")), "Where items come from.", required=True),
    Field("repo", REPO, "github: the repository."),
    Field("item", Choice(("issues", "pull_requests")), "github: kind of item.", "issues"),
    Field("labels", LABELS, "github, linear: labels for ready items and items in progress."),
    Field("filter_labels", TEXTS, "github, linear: further labels that an item must have.", unset="none"),
    Field("exclude_labels", TEXTS, "github, linear: labels that exclude an item.", "blocked, wip"),
    Field("state", Choice(("open", "closed", "all")), "github: state of the items.", "open"),
    Field("assignee", TEXT, "github: only items assigned to this user."),
    Field(
        "claim",
        AnyOf(scalar=Choice(("labels", "store")), sequence=ARGV),
        "github: where to mark a claimed item: on GitHub, or only in the store. command: the program that claims one.",
        "labels",
    ),
    Field(
        "check_author",
        Boolean(),
        "github: take only what a person with write access has labelled.",
        unset="true with labels",
    ),
    Field("trusted_bots", TEXTS, "github: bots that may label items, too.", unset="none"),
    Field("api_url", URL, "github, linear: address of the API, for GitHub Enterprise.", unset="the public API"),
    Field("team", TEXT, "linear: key of the team."),
    Field("project", TEXT, "linear: name of the project."),
    Field("states", TEXTS, "linear: names of the states that items may have.", unset="all"),
    Field("done_state", TEXT, "linear: state of an item that succeeded.", unset="the first completed one"),
    Field("list", ARGV, "command: the program that prints the items, as JSON lines."),
    Field("report", ARGV, "command: the program that gets the end of a run."),
    Field("release", ARGV, "command: the program that offers an item again."),
    Field("timeout", DURATION, "command: how long one of the programs may take.", unset="60s"),
    Field("env", TEXTS, "command: environment variables that the programs get.", unset="none"),
    Field("working_directory", PATH, "command: where the programs run."),
    Field("cleanup_on_failure", Boolean(), "Make an item ready again after a failure.", "true"),
    Field("cleanup_in_progress", Boolean(), "", unsupported_reason="stuck items are always released"),
    Field("auth", AUTH, "github, linear: authentication."),
    Field("attempts", Integer(1, 100), "Maximum attempts per item.", "3"),
    Field("path", PATH, "directory: the folder with one file per item."),
)
