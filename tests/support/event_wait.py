"""Waiting for what must happen soon, and no longer than that."""

import asyncio


async def wait_for_event(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()
