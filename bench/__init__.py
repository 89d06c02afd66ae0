"""Measurements against peers: `python -m bench [name]`. Goals compare figures of one run."""
