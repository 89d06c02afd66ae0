"""The keys of a `work_source:` (SPEC 7)."""

from dataclasses import dataclass

from herdbeat.codes import Code
from herdbeat.config.forms import PATH, REPO, TEXT, TEXTS, VARIABLE
from herdbeat.config.report import Report
from herdbeat.config.shapes import Choice, Flag, Whole
from herdbeat.config.tables import Key, Table
from herdbeat.located import Located

LABELS = Table(
    "Labels",
    (
        Key("ready", TEXT, "The label that offers an item.", "ready"),
        Key("in_progress", TEXT, "The label that claims it.", "agent-working"),
    ),
)
AUTH = Table("An auth", (Key("token_env", VARIABLE, "The variable that holds the token.", "GITHUB_TOKEN"),))


@dataclass(frozen=True, slots=True)
class WorkSourceTable(Table):
    """A directory cannot do without its path. A repository may also be the agent's: see config/work.py."""

    def check(self, node: Located, report: Report) -> None:
        Table.check(self, node, report)
        if node.find(("type",)).value == "directory" and node.child("path") is None:
            message = 'A directory work source needs "path".'
            report.error(Code.MISSING_KEY, message, node.label, "Add path: the folder with one file per item.")


WORK_SOURCE_TABLE = WorkSourceTable(
    "A work source",
    (
        Key("type", Choice(("github", "directory")), "Where items come from.", required=True),
        Key("repo", REPO, "github: the repository."),
        Key("item", Choice(("issues", "pull_requests")), "github: what is taken as an item.", "issues"),
        Key("labels", LABELS, "github: the labels that offer and claim."),
        Key("filter_labels", TEXTS, "github: labels an item must have, beside ready.", "none"),
        Key("exclude_labels", TEXTS, "github: labels that keep an item out.", "blocked, wip"),
        Key("state", Choice(("open", "closed", "all")), "github: the state of the items.", "open"),
        Key("assignee", TEXT, "github: only items of this person."),
        Key("claim", Choice(("labels", "store")), "github: mark a taken item there, or only in our store.", "labels"),
        Key("cleanup_on_failure", Flag(), "A failed item becomes ready again.", "true"),
        Key("cleanup_in_progress", Flag(), "", not_served="stuck items are always released"),
        Key("auth", AUTH, "github: where the token is."),
        Key("attempts", Whole(1, 100), "How often one item is tried.", "3"),
        Key("path", PATH, "directory: the folder with one file per item."),
    ),
)
