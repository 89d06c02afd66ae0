"""`python -m herdbeat`: the same as the `herdbeat` script, for where that is not on the path."""

import sys

from herdbeat.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
