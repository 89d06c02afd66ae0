"""Measurements against peers: `python -m bench [name]`. Ratios from one run, because two machines never agree."""
