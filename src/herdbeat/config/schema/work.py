"""The keys of a `work_source:`."""

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import PATH, REPO, TEXT, TEXTS, VARIABLE_NAME
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.types import Boolean, Choice, Integer
from herdbeat.error_codes import Code

_READY = Field("ready", TEXT, "The label that offers an item.", "ready")
_IN_PROGRESS = Field("in_progress", TEXT, "The label that claims it.", "agent-working")
LABELS = Table("Labels", _READY, _IN_PROGRESS)
AUTH = Table("An auth", Field("token_env", VARIABLE_NAME, "The variable that holds the token.", "GITHUB_TOKEN"))


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
    Field("item", Choice(("issues", "pull_requests")), "github: what is taken as an item.", "issues"),
    Field("labels", LABELS, "github: the labels that offer and claim."),
    Field("filter_labels", TEXTS, "github: labels an item must have, beside ready.", unset="none"),
    Field("exclude_labels", TEXTS, "github: labels that keep an item out.", "blocked, wip"),
    Field("state", Choice(("open", "closed", "all")), "github: the state of the items.", "open"),
    Field("assignee", TEXT, "github: only items of this person."),
    Field("claim", Choice(("labels", "store")), "github: mark a taken item there, or only in our store.", "labels"),
    Field("cleanup_on_failure", Boolean(), "A failed item becomes ready again.", "true"),
    Field("cleanup_in_progress", Boolean(), "", unsupported_reason="stuck items are always released"),
    Field("auth", AUTH, "github: where the token is."),
    Field("attempts", Integer(1, 100), "How often one item is tried.", "3"),
    Field("path", PATH, "directory: the folder with one file per item."),
)
