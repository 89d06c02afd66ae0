"""The keys of a `work_source:`."""

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import PATH, REPO, TEXT, TEXTS, VARIABLE_NAME
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.types import Boolean, Choice, Integer
from herdbeat.error_codes import Code

_READY = Field("ready", TEXT, "Label of items that are ready.", "ready")
_IN_PROGRESS = Field("in_progress", TEXT, "Label set on an item while it is in progress.", "agent-working")
LABELS = Table("Labels", _READY, _IN_PROGRESS)
AUTH = Table("An auth", Field("token_env", VARIABLE_NAME, "Environment variable with the token.", "GITHUB_TOKEN"))


class WorkSourceTable(Table):
    """Also reports a directory without its path. A missing repository may be the agent's: build_schedule checks it."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        if node.find(("type",)).value == "directory" and node.child("path") is None:
            message = 'A directory work source needs "path".'
            hint = "Add path: the folder with one file per item."
            diagnostics.error(Code.MISSING_KEY, message, node.report_location, hint)


WORK_SOURCE_TABLE = WorkSourceTable(
    "A work source",
    Field("type", Choice(("github", "directory")), "Where items come from.", required=True),
    Field("repo", REPO, "github: the repository."),
    Field("item", Choice(("issues", "pull_requests")), "github: kind of item.", "issues"),
    Field("labels", LABELS, "github: labels for ready items and items in progress."),
    Field("filter_labels", TEXTS, "github: further labels that an item must have.", unset="none"),
    Field("exclude_labels", TEXTS, "github: labels that exclude an item.", "blocked, wip"),
    Field("state", Choice(("open", "closed", "all")), "github: state of the items.", "open"),
    Field("assignee", TEXT, "github: only items assigned to this user."),
    Field(
        "claim",
        Choice(("labels", "store")),
        "github: where to mark a claimed item: on GitHub, or only in the store.",
        "labels",
    ),
    Field("cleanup_on_failure", Boolean(), "Make an item ready again after a failure.", "true"),
    Field("cleanup_in_progress", Boolean(), "", unsupported_reason="stuck items are always released"),
    Field("auth", AUTH, "github: authentication."),
    Field("attempts", Integer(1, 100), "Maximum attempts per item.", "3"),
    Field("path", PATH, "directory: the folder with one file per item."),
)
