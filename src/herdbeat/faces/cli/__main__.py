"""`python -m herdbeat.faces.cli`: services installed by a version before 0.2 start this. Kept for one release."""

import sys

from herdbeat.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
