"""The command line: an adapter. `table.py` lists every command."""
