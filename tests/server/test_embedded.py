"""`Herd.asgi()` in somebody's own application: only tokens, or whoever the application says it is."""

import asyncio
from pathlib import Path

from tests.support.asgi_client import AsgiClient

from herdbeat import Herd
from herdbeat.service.commands.base import Actor, CreateToken
from herdbeat.service.commands.tokens import mint_token


def build_herd(folder: Path) -> Herd:
    herd = Herd(folder)

    @herd.every("1h")
    def tidy() -> None: ...

    return herd


async def test_without_identify_only_a_token_gets_in(tmp_path: Path) -> None:
    herd, minted = build_herd(tmp_path), mint_token()
    app = herd.asgi()
    async with herd:
        herd_app = app._open()
        gateway = herd_app.state.authenticator.gateway
        command = CreateToken(name="ci", grants="read", digest=minted.digest)
        await asyncio.to_thread(gateway.deliver, Actor(name="human:you"), command)
        nobody = await asyncio.to_thread(AsgiClient(app=app).get, "/api/v1/status")
        client = AsgiClient(app=app, headers={"authorization": f"Bearer {minted.text}"})
        somebody = await asyncio.to_thread(client.get, "/api/v1/status")
        gateway.close()

    assert nobody.status == 401  # although it comes from this machine
    assert (somebody.status, somebody.json()["scheduler"]["running"]) == (200, True)


async def test_the_application_says_who_is_asking(tmp_path: Path) -> None:
    herd = build_herd(tmp_path)
    users = {"ann": ("ann", "operate")}
    app = herd.asgi(identify=lambda request: users.get(request.headers.get("x-user", "")))
    async with herd:
        ann = AsgiClient(app=app, headers={"x-user": "ann"})
        session = (await asyncio.to_thread(ann.get, "/api/v1/session")).json()
        nobody = await asyncio.to_thread(AsgiClient(app=app).get, "/api/v1/session")
        changed = await asyncio.to_thread(
            ann.send,
            "POST",
            "/api/v1/bulk",
            {"select": {"all": True}, "action": "pause"},
            {"origin": "http://127.0.0.1:3232", "x-csrf-token": session["csrf_token"]},
        )
        app._open().state.authenticator.gateway.close()

    assert (session["name"], nobody.status) == ("human:ann", 401)
    assert (changed.status, changed.json()["changed"]) == (200, 1)
