"""`herdbeat schema`: for editors, which then complete and check while one types."""

import json

from herdbeat import app
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.world import Context


def run_schema(args: ParsedArgs, context: Context) -> int:
    schema = app.build_file_schema(args.positional(0) or "fleet")
    context.terminal.print(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0
