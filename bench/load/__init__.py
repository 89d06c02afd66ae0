"""Measurements of a real node on a store of its own, for `python -m bench.load` and `python -m bench`."""
