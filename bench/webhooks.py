"""How many webhook calls a second are accepted and durable: `python -m bench.webhooks [CALLS] [CONNECTIONS]`.

A real fleet on SQLite, signed calls of about 1 KiB over keep-alive connections. The command of the schedule is never
started: its target is full, so what is measured is the way in. The ledger is asked at the end how many beats it has.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from herdbeat.clock import SystemClock
from herdbeat.service.webhooks.signatures import PRESETS, sign_call

SECRET = "bench-secret-of-webhooks"
PORT = 4599
FLEET = """\
version: 1
fleet: { name: bench }
timezone: UTC
webhooks: { secret_env: HOOK_SECRET }
commands:
  - name: sink
    command: [sleep, "3600"]
    type: webhook
"""


async def send_all(numbers: Iterator[int], connections: int) -> list[float]:
    """Return the seconds that each call took. Raises RuntimeError for a call that was not accepted."""
    latencies: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        for number in numbers:
            body = json.dumps({"action": "published", "number": number, "text": "x" * 900}).encode()
            began = time.perf_counter()
            writer.write(build_request(number, body))
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            if not head.startswith(b"HTTP/1.1 202"):
                raise RuntimeError(head.decode())
            latencies.append(time.perf_counter() - began)
        writer.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(work())
    return latencies


def build_request(number: int, body: bytes) -> bytes:
    headers = sign_call(PRESETS["github"], SECRET, body, f"d-{number}", SystemClock().now())
    lines = [f"{name}: {value}" for name, value in headers.items()]
    start = f"POST /hooks/sink/default HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Length: {len(body)}\r\n"
    return (start + "\r\n".join(lines) + "\r\n\r\n").encode() + body


def main() -> None:
    calls, connections = (int(word) for word in (*sys.argv[1:], "3000", "32")[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
        environ = {**os.environ, "HOOK_SECRET": SECRET}
        argv = [sys.executable, "-m", "herdbeat", "up", "--json", "--port", str(PORT)]
        with subprocess.Popen(argv, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                next(line for line in process.stdout if '"server_ready"' in line)
                asyncio.run(send_all(iter([calls]), 1))
                began = time.perf_counter()
                latencies = sorted(asyncio.run(send_all(iter(range(calls)), connections)))
                took = time.perf_counter() - began
            finally:
                process.kill()
        with sqlite3.connect(folder / ".herdbeat" / "herdbeat.db") as ledger:
            (beats,) = ledger.execute("SELECT count(*) FROM beat").fetchone()
    print(f"{calls} calls over {connections} connections: {calls / took:.0f} a second, {beats} beats in the ledger")
    print(
        f"p50 {latencies[len(latencies) // 2] * 1000:.0f} ms, p99 {latencies[len(latencies) * 99 // 100] * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
