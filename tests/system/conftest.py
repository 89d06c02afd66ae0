"""The third layer of tests: real programs on a machine that can reach nothing but itself. `make test-system` runs it.

A test says with `needs` which parts it uses. If one could not be installed, the test counts as *not run*, with the
reason at the end of the run; it is never counted as passed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.agent_clis import AGENT_CLIS, AgentCli, AgentHome, needs_cli
from tests.system.loopback_only import is_loopback_only
from tests.system.model_server import ModelServer, model_server
from tests.system.parts import read_states

NOT_RUN = "not run"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*parts): programs of tests/system/parts.py that the test uses")
    if not is_loopback_only():
        pytest.exit("These tests run where only loopback is reachable. Run: make test-system TESTS=tests/system", 2)


def pytest_runtest_setup(item: pytest.Item) -> None:
    states = read_states()
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if reason := states[name].missing:
                pytest.skip(f"{name}: {reason}")


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    return (NOT_RUN, "N", "NOT RUN") if report.when == "setup" and report.skipped else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get(NOT_RUN, [])
    reasons = sorted({str(each.longrepr[2]).removeprefix("Skipped: ") for each in reports})
    if reasons:
        terminalreporter.section(f"{len(reports)} tests were NOT RUN, because parts could not be installed")
        for reason in reasons:
            terminalreporter.line(reason)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which nothing ran has not succeeded."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter and not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture(params=[needs_cli(each) for each in AGENT_CLIS])
def cli(request: pytest.FixtureRequest) -> AgentCli:
    """Each of the real CLIs."""
    found: AgentCli = request.param
    return found


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, model: ModelServer) -> AgentHome:
    """A home folder of this test, in which every CLI asks the model server."""
    home = AgentHome(tmp_path / "home", model.url)
    home.set_up()
    return home
