"""The words of Slack messages: whose they are, and what the marks in them stand for."""

from __future__ import annotations

import re
from typing import Any

from palace_daemon.core.documents import decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import Attachment

_MARK = re.compile(r"<((?:[@#!]|[a-zA-Z][a-zA-Z0-9+.-]*:)[^<>\n]+)>")
_DIRECT = re.compile(r"[DG][A-Z0-9]{7,}")
"""A conversation without a name of its own."""


class Names:
    """Names of people and channels: what lies beside the export, else what the messages tell of themselves."""

    def __init__(self, root: str, beside: Beside) -> None:
        """Take the export's directory, or an empty string where the file lies in none."""
        self._people: dict[str, str] = {}
        self._channels: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        if not root:
            return
        for file in ("users.json", "org_users.json"):
            for person in _records(beside.read(root + file)):
                self._people.setdefault(as_text(person.get("id")), _name_of(person))
        for file in ("channels.json", "groups.json", "dms.json", "mpims.json"):
            for channel in _records(beside.read(root + file)):
                name = as_text(channel.get("id"))
                self._channels.setdefault(name, as_text(channel.get("name")))
                members = channel.get("members")
                self._members.setdefault(name, members if isinstance(members, list) else [])

    def person(self, user: str, shown: str = "") -> str:
        """Return the name of the person with this id; ``shown`` is what a mark itself says."""
        return self._people.get(user) or shown or user

    def channel(self, name: str, shown: str = "") -> str:
        """Return the name of the channel with this id."""
        return self._channels.get(name) or shown or name

    def speaker_of(self, record: dict[str, Any]) -> str:
        """Return the name of who said a message."""
        user = as_text(record.get("user"))
        profile, bot = record.get("user_profile"), record.get("bot_profile")
        shown = _name_of({"profile": profile}) if isinstance(profile, dict) else ""
        shown = shown or as_text(record.get("username"))
        shown = shown or (as_text(bot.get("name")) if isinstance(bot, dict) else "")
        return self.person(user, shown) or as_text(record.get("bot_id")) or "unknown"

    def title_of(self, channel: str) -> str:
        """Return how a conversation is shown: a channel with its sign, a direct one by its members."""
        members = [self.person(as_text(member)) for member in self._members.get(channel, [])]
        if _DIRECT.fullmatch(channel) and members:
            return ", ".join(members)
        return f"#{self.channel(channel)}"


def plain_words(text: str, names: Names) -> str:
    """Return ``text`` with its marks for people, channels and links resolved."""
    if "<" in text:
        text = _MARK.sub(lambda mark: _resolved(mark[1], names), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") if "&" in text else text


def _resolved(inside: str, names: Names) -> str:
    target, _, label = inside.partition("|")
    sign, rest = target[0], target[1:]
    if sign == "@":
        return f"@{names.person(rest, label)}"
    if sign == "#":
        return f"#{names.channel(rest, label)}"
    if sign == "!":
        return label or f"@{rest.partition('^')[0]}"
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    return bare if not label or label == bare or target.endswith(label) else f"{label} ({bare})"


def attachments_of(record: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the files that a message holds."""
    files = record.get("files")
    found = [file for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return tuple(
        Attachment(
            kind="image" if as_text(file.get("mimetype")).startswith("image/") else "file",
            name=as_text(file.get("name")) or as_text(file.get("title")),
            size_bytes=size if isinstance(size := file.get("size"), int) and size >= 0 else 0,
        )
        for file in found
    )


def _records(data: bytes | None) -> list[dict[str, Any]]:
    value = decode_value(data).value if data else None
    return [record for record in value if isinstance(record, dict)] if isinstance(value, list) else []


def _name_of(person: dict[str, Any]) -> str:
    profile = person.get("profile")
    for holder, field in (
        *((profile, field) for field in ("display_name", "real_name", "name")),
        *((person, field) for field in ("real_name", "name")),
    ):
        name = as_text(holder.get(field)) if isinstance(holder, dict) else ""
        if name.strip():
            return name.strip()
    return ""
