"""Answers in chat: the reply in the thread of a message when its run has ended. Pure."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta

from herdbeat.domain.chat import ChatPlatform
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.outbox import DeliveryKind, NewDelivery
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.durations import format_elapsed

MAX_PARTS = 3
"""A longer answer is a file."""

_PART_CHARS = {ChatPlatform.SLACK: 3_800, ChatPlatform.DISCORD: 1_900}
_MAX_ERROR_CHARS = 1_000


def build_replies(
    address: Mapping[str, object], text: str, identity: str, *, run_id: int | None = None
) -> tuple[NewDelivery, ...]:
    """Return the messages that say a text at an address: a few in a row, or one with a file.

    `address` is what came with the message: platform, channel, thread, and the variable with the token of the bot.
    """
    platform = ChatPlatform(str(address["platform"]))
    parts = split_text(text, _PART_CHARS[platform])
    if len(parts) > MAX_PARTS:
        payloads: list[dict[str, object]] = [{"text": f"{parts[0][:300].rstrip()}…", "file": text}]
    else:
        payloads = [{"text": part} for part in parts]
    return tuple(
        NewDelivery(
            message_id=f"msg_{hashlib.sha256(f'{identity}:{number}'.encode()).hexdigest()[:32]}",
            channel=f"chat:{platform}:{address.get('target')}",
            kind=DeliveryKind.CHAT,
            name="answer",
            spec={"type": f"{platform}_chat", **{key: address.get(key) for key in _ADDRESS_KEYS}},
            payload=payload,
            run_id=run_id,
        )
        for number, payload in enumerate(payloads)
    )


_ADDRESS_KEYS = ("channel", "thread", "message", "bot_token_env", "has_thread")


def build_answer(
    claim: Claim, address: Mapping[str, object], outcome: Outcome, elapsed: timedelta
) -> tuple[NewDelivery, ...]:
    """Return the answer of a run: what the agent said, or why it said nothing."""
    identity = f"chat:{claim.dedup_id}:{claim.attempt}:{claim.run_id}"
    return build_replies(address, _describe(claim, outcome, elapsed), identity, run_id=claim.run_id)


def _describe(claim: Claim, outcome: Outcome, elapsed: timedelta) -> str:
    said = outcome.agent.answer if outcome.agent is not None else ""
    said = (said or outcome.summary or outcome.output).strip()
    if outcome.status is RunStatus.SUCCEEDED:
        if outcome.agent is not None and outcome.agent.quiet:
            return "Nothing to report."
        return said or "Done. The agent said nothing."
    word = {RunStatus.TIMED_OUT: "timed out", RunStatus.CANCELLED: "was stopped"}.get(outcome.status, "failed")
    error = f": {' '.join(outcome.error.split())[:_MAX_ERROR_CHARS]}" if outcome.error else ""
    return f"Run {format_short_id(claim.run_id)} {word} after {format_elapsed(elapsed)}{error}"


def split_text(text: str, limit: int) -> list[str]:
    """Split at the ends of paragraphs, lines or words, whichever fits; never empty."""
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        head = rest[:limit]
        cut = max(head.rfind("\n\n"), 0) or max(head.rfind("\n"), 0) or max(head.rfind(" "), 0)
        cut = cut if cut > limit // 2 else limit
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*parts, rest] if rest or not parts else parts
