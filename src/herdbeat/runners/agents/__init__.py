"""Runs of agent CLIs: presets build the command line, parsers read the output, the recorder keeps what a run tells.

Everything here is pure: bytes, values and `now` go in, values come out. Nothing starts a process or reads a clock.
"""
