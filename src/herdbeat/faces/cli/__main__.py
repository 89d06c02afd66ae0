"""`python -m herdbeat.faces.cli`, for where the script is not on the path."""

import sys

from herdbeat.faces.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
