"""The table of pages and forms: path to function."""

from collections.abc import Mapping

from herdbeat.dashboard import actions
from herdbeat.dashboard.app import Form, Page
from herdbeat.dashboard.pages.now import show_now

PAGES: Mapping[str, Page] = {
    "/": show_now,
}

FORMS: Mapping[str, Form] = {
    "/actions/schedules": actions.change_schedules,
    "/actions/runs": actions.change_runs,
    "/actions/accounts": actions.release_account,
    "/actions/undo": actions.undo_change,
    "/preferences": actions.save_preferences,
}
