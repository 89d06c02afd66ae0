"""Fleet files to begin with. Each is valid, and runs as it is or says in its comments what to fill in."""

from dataclasses import dataclass
from importlib.resources import files

SCHEMA = ".herdbeat/schema.json"
_COMMENT = f"# yaml-language-server: $schema={SCHEMA}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """`needs` is what has to be there before it can run, if anything."""

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


def starter_text(name: str, fleet: str) -> str:
    """The file, for a fleet of that name."""
    text = (files("herdbeat.config.starters") / f"{name}.yaml").read_text(encoding="utf-8")
    return _COMMENT + text.replace("{ name: NAME }", f'{{ name: "{fleet}" }}', 1)
