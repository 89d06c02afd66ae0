"""What means more here than in the tool a file was written for, said once per place."""

from herdbeat.codes import Code
from herdbeat.config.entries import ScheduleSource
from herdbeat.config.report import Diagnostics
from herdbeat.located import ConfigNode


def warn_changed_schedule(schedule_source: ScheduleSource, diagnostics: Diagnostics) -> None:
    """herdctl's documents promise these two; its code never looked at them."""
    work = schedule_source.node.child("work_source")
    if work is not None and work.value is not None:
        _warn_changed_meaning(
            work,
            "herdctl never asks its work_source; here each run takes one item, and none without work.",
            diagnostics,
        )
    resume = schedule_source.node.child("resume_session")
    if resume is not None and resume.value is True:
        _warn_changed_meaning(
            resume, "herdctl never resumes on schedules; here the run goes on in the last session.", diagnostics
        )


def warn_changed_fleet(tree: ConfigNode, diagnostics: Diagnostics) -> None:
    enabled = tree.find(("webhooks", "enabled"))
    if enabled.value is True:
        message = "herdctl never serves webhooks; here they are called as POST /hooks/{target}/{schedule}."
        _warn_changed_meaning(tree.find(("webhooks",)), message, diagnostics)


def warn_changed_docker(agent: ConfigNode, defaults: ConfigNode | None, diagnostics: Diagnostics) -> None:
    """herdctl fills `enabled: false` into an agent's block before it merges: who sets a limit loses the container."""
    docker = agent.child("docker")
    if docker is None or not isinstance(docker.value, dict) or "enabled" in docker.value or defaults is None:
        return
    if defaults.find(("docker", "enabled")).value is True:
        message = "herdctl runs this agent without the container of the defaults; here it runs inside one."
        _warn_changed_meaning(docker, message, diagnostics)


def warn_cron_day_semantics(expression: ConfigNode, diagnostics: Diagnostics) -> None:
    """With both day fields written, agentd fires on a day of either; cron takes `*/2` for a star, and wants both."""
    fields = str(expression.value).split()
    if len(fields) == 7:
        fields.pop()  # the year
    if len(fields) not in (5, 6):
        return
    day, _, weekday = fields[-3:]
    has_star = day.startswith("*") or weekday.startswith("*")
    if not has_star or {day, weekday} & {"*", "?"} or weekday.startswith("+"):
        return
    either = f"{day.replace('*', '1-31')} with {weekday.replace('*', '0-6')}"
    diagnostics.warning(
        Code.CHANGED_MEANING,
        f"agentd fires on a day that {day} or {weekday} names; here, as in cron, both must name it.",
        expression.location,
        f"Write {either} if one is enough, or +{weekday} if both must: so the two tools agree.",
    )


def _warn_changed_meaning(node: ConfigNode, message: str, diagnostics: Diagnostics) -> None:
    if diagnostics.lenient and diagnostics.is_foreign(node.report_location):
        diagnostics.warning(
            Code.CHANGED_MEANING, message, node.report_location, "Nothing needs to be done if that is what you want."
        )
