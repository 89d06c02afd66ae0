"""How properties are searched: the same way every time where a red run stops others, anew each time on a desk."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
