"""Fleet files to begin with. Each is valid, and runs as it is or says in comments what to fill in."""

from dataclasses import dataclass
from importlib.resources import files

SCHEMA_PATH = ".herdbeat/schema.json"
_SCHEMA_COMMENT = f"# yaml-language-server: $schema={SCHEMA_PATH}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A template. `needs` is what must exist before it can run, if anything."""

    name: str
    meaning: str
    needs: str = ""


STARTERS = (
    Starter(name="agents", meaning="an AI agent, by the clock and hourly", needs="claude on the PATH"),
    Starter(name="endpoints", meaning="HTTP requests, with limits and retries"),
    Starter(name="commands", meaning="programs of this machine"),
    Starter(
        name="github",
        meaning="an agent that works through issues",
        needs="your repository in the file, where it says repo:",
    ),
    Starter(name="demo", meaning="three programs that are never quiet"),
)


def render_starter(name: str, fleet: str) -> str:
    """Return the text of the file, for a fleet of that name."""
    text = (files("herdbeat.cli.starters") / f"{name}.yaml").read_text(encoding="utf-8")
    return _SCHEMA_COMMENT + text.replace("{ name: NAME }", f'{{ name: "{fleet}" }}', 1)
