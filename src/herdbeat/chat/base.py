"""Who may talk to an agent, where, and how: the `chat` block of an agent, read, and a message measured by it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from herdbeat.domain.chat import ChatPlatform, ChatPost

MAX_TEXT_CHARS = 40_000


class ChatMode(StrEnum):
    MENTION = "mention"  # only messages that mention the bot
    AUTO = "auto"  # every message


_MODES = {"mention": ChatMode.MENTION, "auto": ChatMode.AUTO, "channel": ChatMode.AUTO}


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectRules:
    """Whether people can write to the bot directly, and who."""

    is_enabled: bool = True
    mode: ChatMode = ChatMode.AUTO
    allowed: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConnector:
    """One platform of one agent. It has the names of variables, never a token.

    With `users`, only their messages are accepted, and they may use words such as `stop` and `run`.
    """

    platform: ChatPlatform
    target: str
    bot_token_env: str
    app_token_env: str = ""
    signing_secret_env: str = ""
    public_key: str = ""
    channels: Mapping[str, ChatMode] = field(default_factory=dict)
    users: frozenset[str] = frozenset()
    direct: DirectRules = DirectRules()

    def hears(self, post: ChatPost) -> bool:
        """Return whether a message is for the agent. Messages of bots never are: two of them would never stop."""
        if post.is_by_bot or not post.text.strip() or (self.users and post.user not in self.users):
            return False
        if post.is_direct:
            return self._hears_directly(post)
        mode = self.channels.get(post.channel)
        return mode is not None and (mode is ChatMode.AUTO or post.mentions_bot)

    def _hears_directly(self, post: ChatPost) -> bool:
        rules = self.direct
        if not rules.is_enabled or post.user in rules.blocked or (rules.allowed and post.user not in rules.allowed):
            return False
        return rules.mode is ChatMode.AUTO or post.mentions_bot

    def may_command(self, user: str) -> bool:
        """Return whether a user may stop, run and pause: only who is named."""
        return user in self.users


def read_connectors(target: str, chat: Mapping[str, object]) -> tuple[ChatConnector, ...]:
    """Return the connectors of an agent's `chat` block, in herdctl's shape. What is not understood is left out."""
    found = []
    slack, discord = chat.get("slack"), chat.get("discord")
    if isinstance(slack, Mapping):
        found.append(
            ChatConnector(
                platform=ChatPlatform.SLACK,
                bot_token_env=str(slack.get("bot_token_env") or "SLACK_BOT_TOKEN"),
                app_token_env=_read_app_token_env(slack),
                signing_secret_env=str(slack.get("signing_secret_env") or ""),
                channels=_read_channels(slack.get("channels")),
                target=target,
                users=_read_names(slack.get("users")),
                direct=_read_direct(slack.get("dm")),
            )
        )
    if isinstance(discord, Mapping):
        guilds = discord.get("guilds")
        listed = [each for each in guilds if isinstance(each, Mapping)] if isinstance(guilds, list | tuple) else []
        channels = {id_: mode for guild in listed for id_, mode in _read_channels(guild.get("channels")).items()}
        found.append(
            ChatConnector(
                platform=ChatPlatform.DISCORD,
                bot_token_env=str(discord.get("bot_token_env") or "DISCORD_BOT_TOKEN"),
                public_key=str(discord.get("public_key") or ""),
                channels=channels | _read_channels(discord.get("channels")),
                target=target,
                users=_read_names(discord.get("users")),
                direct=_read_direct(discord.get("dm")),
            )
        )
    return tuple(found)


def _read_app_token_env(slack: Mapping[str, object]) -> str:
    """Socket Mode is the default; who gives a signing secret alone uses the Events API."""
    written = slack.get("app_token_env")
    if written is None:
        return "" if slack.get("signing_secret_env") else "SLACK_APP_TOKEN"
    return str(written)


def _read_channels(written: object) -> dict[str, ChatMode]:
    listed = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list | tuple) else []
    return {
        str(each["id"]): _MODES.get(str(each.get("mode") or "mention"), ChatMode.MENTION)
        for each in listed
        if each.get("id")
    }


def _read_direct(written: object) -> DirectRules:
    if not isinstance(written, Mapping):
        return DirectRules()
    return DirectRules(
        is_enabled=written.get("enabled") is not False,
        mode=_MODES.get(str(written.get("mode") or "auto"), ChatMode.AUTO),
        allowed=_read_names(written.get("allowlist")),
        blocked=_read_names(written.get("blocklist")),
    )


def _read_names(written: object) -> frozenset[str]:
    return frozenset(map(str, written)) if isinstance(written, list | tuple) else frozenset()


class VerbKind(StrEnum):
    """Words that are commands, if they are all of a message."""

    STATUS = "status"
    STOP = "stop"
    RUN = "run"
    PAUSE = "pause"
    RESUME = "resume"
    ACK = "ack"
    SNOOZE = "snooze"
    PAUSES = "pauses"
    CANCEL_PAUSE = "pauses cancel"

    @property
    def needs_user(self) -> bool:
        return self is not VerbKind.STATUS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatVerb:
    """A command in a message: its word, the name after it, how long, and for a planned pause from when until when."""

    kind: VerbKind
    name: str = ""
    lasts: str = ""
    begins: str = ""
    ends: str = ""


_PLAN_PATTERN = re.compile(
    r"pause\s+(?P<name>\S+)\s+from\s+(?P<begins>\S.{0,40}?)\s+(until\s+(?P<ends>\S.{0,40})|for\s+(?P<lasts>[0-9]+[smhd]))",
    re.IGNORECASE,
)
_PAUSES_PATTERN = re.compile(r"pauses(\s+cancel\s+(?P<number>[0-9]{1,18}))?", re.IGNORECASE)
_VERB_PATTERN = re.compile(
    r"(?P<verb>status|stop)|(?P<named>run|pause|resume|ack|snooze)\s+(?P<name>[^\s]+)(\s+(for\s+)?(?P<lasts>[0-9]+[smhd]))?",
    re.IGNORECASE,
)


def parse_verb(text: str) -> ChatVerb | None:
    """Return the command that a message is; None if it is a message to the agent."""
    text = text.strip()
    if found := _PLAN_PATTERN.fullmatch(text):
        given = {name: value or "" for name, value in found.groupdict().items()}
        return ChatVerb(kind=VerbKind.PAUSE, **given)
    if found := _PAUSES_PATTERN.fullmatch(text):
        number = found["number"] or ""
        return ChatVerb(kind=VerbKind.CANCEL_PAUSE if number else VerbKind.PAUSES, name=number)
    found = _VERB_PATTERN.fullmatch(text)
    if found is None:
        return None
    kind = VerbKind((found["verb"] or found["named"]).lower())
    if found["lasts"] and kind not in (VerbKind.PAUSE, VerbKind.SNOOZE):
        return None
    return ChatVerb(kind=kind, name=found["name"] or "", lasts=found["lasts"] or "")
