"""`python -m herdbeat`: the same as the `herdbeat` script, for environments where the script is not on the PATH."""

import sys

from herdbeat.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
