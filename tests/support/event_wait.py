"""Waits for a condition, with a time limit."""

import asyncio


async def wait_for_event(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()
