"""A stand-in for an AI agent: `python -m herdbeat.demo.agent` reads a prompt, thinks for a while, and answers.

What it does depends on its prompt alone, so that its runs can be told apart: a slow one asks for time.
"""

import sys
import time
from typing import TextIO

_STEPS = ("reading the prompt", "looking at the notes", "writing the answer")
PACE, SLOW_PACE = 0.3, 4.0
"""Seconds for each step. A prompt that says "slowly" gets the second."""


def answer(prompt: str, out: TextIO, pace: float) -> None:
    for step in _STEPS:
        out.write(f"… {step}\n")
        out.flush()
        time.sleep(pace)
    out.write(f"done: {prompt.strip() or 'nothing was asked'}\n")


def main() -> None:
    prompt = sys.stdin.read()
    answer(prompt, sys.stdout, SLOW_PACE if "slowly" in prompt else PACE)


if __name__ == "__main__":
    main()
