"""A fake AI agent: `python -m herdbeat.demo.agent` reads a prompt, waits for a while, and prints an answer."""

import sys
import time
from typing import TextIO

_STEPS = ("reading the prompt", "reading the notes", "writing the answer")
STEP_SECONDS, SLOW_STEP_SECONDS = 0.3, 4.0
"""Seconds per step. A prompt that contains "slowly" gets the second value."""


def write_answer(prompt: str, out: TextIO, step_seconds: float) -> None:
    for step in _STEPS:
        out.write(f"… {step}\n")
        out.flush()
        time.sleep(step_seconds)
    out.write(f"done: {prompt.strip() or 'empty prompt'}\n")


def main() -> None:
    prompt = sys.stdin.read()
    write_answer(prompt, sys.stdout, SLOW_STEP_SECONDS if "slowly" in prompt else STEP_SECONDS)


if __name__ == "__main__":
    main()
