"""What means more here than in the tool a file was written for, said once per place."""

from herdbeat.codes import Code
from herdbeat.config.entries import Entry
from herdbeat.config.report import Report
from herdbeat.located import Located


def note_changed_schedule(entry: Entry, report: Report) -> None:
    """herdctl's documents promise these two; its code never looked at them."""
    work = entry.node.child("work_source")
    if work is not None and work.value is not None:
        _note(work, "herdctl never asks its work_source; here each run takes one item, and none without work.", report)
    resume = entry.node.child("resume_session")
    if resume is not None and resume.value is True:
        _note(resume, "herdctl never resumes on schedules; here the run goes on in the last session.", report)


def note_changed_fleet(tree: Located, report: Report) -> None:
    enabled = tree.find(("webhooks", "enabled"))
    if enabled.value is True:
        message = "herdctl never serves webhooks; here they are called as POST /hooks/{target}/{schedule}."
        _note(tree.find(("webhooks",)), message, report)


def _note(node: Located, message: str, report: Report) -> None:
    if report.is_mild and report.is_foreign(node.label):
        report.warning(Code.CHANGED_MEANING, message, node.label, "Nothing needs to be done if that is what you want.")
