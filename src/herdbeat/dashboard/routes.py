"""The table of pages and forms: path to function."""

from collections.abc import Mapping

from herdbeat.dashboard import actions, edit_actions, run_actions, system_actions
from herdbeat.dashboard.app import Form, Page
from herdbeat.dashboard.pages.now import show_now
from herdbeat.dashboard.pages.planner import show_session, show_sessions
from herdbeat.dashboard.pages.run import show_run
from herdbeat.dashboard.pages.runs import show_runs
from herdbeat.dashboard.pages.schedule import show_schedule
from herdbeat.dashboard.pages.schedules import show_schedules
from herdbeat.dashboard.pages.system import show_system
from herdbeat.dashboard.pages.timeline import show_calendar, show_timeline

PAGES: Mapping[str, Page] = {
    "/": show_now,
    "/schedules": show_schedules,
    "/schedules/{target}/{name}": show_schedule,
    "/runs": show_runs,
    "/runs/{run}": show_run,
    "/timeline": show_timeline,
    "/system": show_system,
    "/planner": show_sessions,
    "/planner/{session}": show_session,
    "/calendar.ics": show_calendar,
}

FORMS: Mapping[str, Form] = {
    "/actions/schedules": actions.change_schedules,
    "/actions/runs": run_actions.change_runs,
    "/actions/edit": edit_actions.edit_schedule,
    "/actions/accounts": actions.release_account,
    "/actions/notifications": system_actions.change_notifications,
    "/actions/pauses": system_actions.change_pauses,
    "/actions/undo": actions.undo_change,
    "/preferences": actions.save_preferences,
}
