"""The command line. `commands.py` is the one table of what it can do."""
