"""`herdbeat schema`: for editors, which then complete and check while one types."""

import json

from herdbeat import app
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.world import World


def run(given: Given, world: World) -> int:
    schema = app.file_schema(given.word(0) or "fleet")
    world.terminal.say(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0
