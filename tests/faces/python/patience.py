"""Waiting for what must happen soon, and no longer than that."""

import asyncio


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()
