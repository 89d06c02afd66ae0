"""One module per generated page of docs/reference; this table is the only list of them."""

from collections.abc import Callable

from scripts.pages import cli, configuration, problems, prompts, runtimes, words

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli.page,
    "configuration.md": configuration.page,
    "problems.md": problems.page,
    "prompts.md": prompts.page,
    "runtimes.md": runtimes.page,
    "words.md": words.page,
}
