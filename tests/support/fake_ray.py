"""A server that speaks Ray's Jobs interface and starts each job as a plain process. It can lose, double, delay jobs.

It answers as Ray 2.60 does, also where that is odd: a repeated submission_id is HTTP 500 with a traceback.
"""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

STOP_WAIT_S = 3.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class FakeJob:
    """One submitted job, and its processes: two if it was doubled."""

    request: dict[str, Any]
    status: str = "PENDING"
    message: str = "Job is currently pending."
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.request["submission_id"])

    def poll(self) -> None:
        if self.status == "RUNNING" and all(each.poll() is not None for each in self.processes):
            code = self.processes[0].returncode
            self.status = "SUCCEEDED" if code == 0 else "FAILED"
            self.message = f"Job finished with exit code {code}."

    def to_json(self) -> dict[str, Any]:
        self.poll()
        code = self.processes[0].returncode if self.processes else None
        return {
            **{key: self.request[key] for key in ("entrypoint", "submission_id", "metadata")},
            "status": self.status,
            "message": self.message,
            "driver_exit_code": code,
        }


@dataclass
class FakeRay:
    """The cluster. `full` keeps jobs pending, `loses` forgets them, `copies` says how often each is started.

    The answers to the next `cuts` requests are lost on their way; `is_away` loses the requests, too. A `proxy` in
    front of it answers the next submissions itself: with this status, and no job.
    """

    jobs: dict[str, FakeJob] = field(default_factory=dict)
    full: bool = False
    loses: bool = False
    copies: int = 1
    cuts: int = 0
    is_away: bool = False
    proxy: int = 0
    url: str = ""
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    submits: int = 0
    forgotten: list[FakeJob] = field(default_factory=list)

    def start(self, job: FakeJob) -> None:
        job.status, job.message = "RUNNING", "Job is currently running."
        for _ in range(self.copies):
            process = subprocess.Popen(
                job.request["entrypoint"],
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=self.environ,
            )
            job.processes.append(process)

    def start_all(self) -> None:
        """There is room again."""
        self.full = False
        for job in list(self.jobs.values()):
            if job.status == "PENDING":
                self.start(job)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        _kill(self.jobs[name].processes, number)

    def forget_jobs(self) -> None:
        """The head is a new one, which knows no jobs. Their processes continue."""
        self.forgotten += self.jobs.values()
        self.jobs = {}

    def close(self) -> None:
        for job in (*self.forgotten, *self.jobs.values()):
            _kill(job.processes, signal.SIGKILL)
            for process in job.processes:
                process.wait()

    # ── the interface ──

    @web.middleware
    async def lose(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer, unless the network fails before or after what was asked for is done."""
        assert request.transport is not None
        if self.is_away:
            request.transport.abort()
            return web.Response()
        answer = await handler(request)
        if self.cuts > 0:
            self.cuts -= 1
            request.transport.abort()
        return answer

    async def submit(self, request: web.Request) -> web.Response:
        self.submits += 1
        if self.proxy:
            return web.Response(status=self.proxy, text="<html>Sign in</html>", headers={"Location": "/login"})
        job = FakeJob(await request.json())
        if job.name in self.jobs:
            text = f"Traceback (most recent call last):\n  …\nValueError: Job {job.name} already exists."
            return web.Response(status=500, text=text)
        if not self.loses:
            self.jobs[job.name] = job
            if not self.full:
                self.start(job)
        return web.json_response({"job_id": job.name, "submission_id": job.name})

    async def list_jobs(self, request: web.Request) -> web.Response:
        return web.json_response([each.to_json() for each in self.jobs.values()])

    async def show(self, request: web.Request) -> web.Response:
        job = self.jobs.get(request.match_info["name"])
        if job is None:
            return web.Response(status=404, text=f"Job {request.match_info['name']} does not exist")
        return web.json_response(job.to_json())

    async def stop(self, request: web.Request) -> web.Response:
        job = self.jobs.get(request.match_info["name"])
        if job is None:
            return web.Response(status=404, text=f"Job {request.match_info['name']} does not exist")
        job.poll()
        if job.status in ("PENDING", "RUNNING"):
            job.status, job.message = "STOPPED", "Job was intentionally stopped."
            self.kill(job.name, signal.SIGTERM)
            asyncio.get_running_loop().call_later(STOP_WAIT_S, _kill, list(job.processes), signal.SIGKILL)
        return web.json_response({"stopped": True})

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "4", "ray_version": "2.60.0"})


def _kill(processes: Iterable["subprocess.Popen[bytes]"], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


@contextmanager
def fake_ray(port: int = 0) -> Iterator[FakeRay]:
    """Serve on loopback, in a thread, until the block is left; then every job is killed."""
    cluster, loop, ready = FakeRay(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> web.AppRunner:
        app = web.Application(middlewares=[cluster.lose])
        app.router.add_post("/api/jobs/", cluster.submit)
        app.router.add_get("/api/jobs/", cluster.list_jobs)
        app.router.add_get("/api/jobs/{name}", cluster.show)
        app.router.add_post("/api/jobs/{name}/stop", cluster.stop)
        app.router.add_get("/api/version", cluster.version)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        cluster.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(serve())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield cluster
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        cluster.close()
