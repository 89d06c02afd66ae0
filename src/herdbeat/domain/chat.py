"""Chat: a message that somebody wrote on a platform, and where an answer to it goes."""

from dataclasses import dataclass
from enum import StrEnum

from herdbeat.domain.trigger import is_chat_id


class ChatPlatform(StrEnum):
    SLACK = "slack"
    DISCORD = "discord"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPost:
    """A message as a platform delivers it. `thread` is the first message of its conversation: its own id if it is that.

    `text` has no mention of the bot in it. One that `is_direct` was written to the bot alone.
    """

    platform: ChatPlatform
    channel: str
    id: str
    thread: str
    user: str
    text: str
    is_direct: bool = False
    is_by_bot: bool = False
    mentions_bot: bool = False
    has_thread: bool = True
    """False if the platform cannot keep a conversation in a thread: the answer refers to the message instead."""

    @property
    def event_id(self) -> str:
        """What makes it unique, however often and in however many shapes it is delivered."""
        return f"{self.platform}:{self.channel}:{self.thread}:{self.id}"


def thread_prefix(dedup_id: str) -> str:
    """Return what the dedup ids of all beats of a conversation begin with; empty if the beat is not of a chat."""
    return dedup_id.rpartition(":")[0] + ":" if is_chat_id(dedup_id) else ""
