"""Runs of agent CLIs: presets build the command line, parsers read the output, the recorder keeps what a run reports.

Only `runner`, `output`, `scratch` and `metadata` touch the machine. All others are pure: bytes, values and `now` go in,
values come out.
"""
