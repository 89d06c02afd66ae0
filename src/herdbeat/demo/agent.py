"""A stand-in for an AI agent: `python -m herdbeat.demo.agent` reads a prompt, thinks for a while, and answers.

What it does depends on its prompt alone, so that its runs can be told apart: a slow one asks for time.
"""

import sys
import time
from typing import TextIO

_STEPS = ("reading the prompt", "looking at the notes", "writing the answer")
STEP_SECONDS, SLOW_STEP_SECONDS = 0.3, 4.0
"""Seconds for each step. A prompt that says "slowly" gets the second."""


def write_answer(prompt: str, out: TextIO, step_seconds: float) -> None:
    for step in _STEPS:
        out.write(f"… {step}\n")
        out.flush()
        time.sleep(step_seconds)
    out.write(f"done: {prompt.strip() or 'nothing was asked'}\n")


def main() -> None:
    prompt = sys.stdin.read()
    write_answer(prompt, sys.stdout, SLOW_STEP_SECONDS if "slowly" in prompt else STEP_SECONDS)


if __name__ == "__main__":
    main()
