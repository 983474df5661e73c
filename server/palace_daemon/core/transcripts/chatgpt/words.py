"""Whose words a node of a ChatGPT conversation holds, and why most nodes hold none."""

from __future__ import annotations

import json
import re
from typing import Any

from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.trees import Message
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Place
from palace_daemon.model import Attachment, ExchangeStatus

_TEXT_TYPES = frozenset({"text", "multimodal_text", ""})
_CUSTOM = frozenset({"user_editable_context", "model_editable_context"})
_REASONING = frozenset({"thoughts", "reasoning_recap"})
_HIDDEN = ("is_visually_hidden_from_conversation", "is_visually_hidden")
_SIDE_CHANNELS = frozenset({"commentary", "analysis"})

_SPAN = re.compile("( ?)\ue200(\\w+)\ue202([^\ue200\ue201]*)\ue201")
"""A citation or a named thing: its kind and its arguments between marks of the private use area."""
_SPAN_END = "\ue201"
_LONE_MARK = re.compile("[\ue200-\ue2ff]")
_SOURCE_MARK = re.compile("\u3010\\d+(?::\\d+)?\u2020[^\u3010\u3011\n]*\u3011")


def read_node(name: str, node: Any, place: Place, default_model: str) -> Message:
    """Return what a node of the mapping says; anything that it does not say becomes a reason."""
    node = node if isinstance(node, dict) else {}
    parent = as_text(node.get("parent"))
    message = node.get("message")
    if not isinstance(message, dict):
        return Message(id=name, parent=parent, place=place)
    metadata = _dict(message.get("metadata"))
    role = as_text(_dict(message.get("author")).get("role")) or as_text(message.get("role"))
    reason = _why_no_words(message, metadata, role)
    at = to_epoch_ms(message.get("create_time"))
    if reason:
        is_call = role == "assistant" and reason == "tool_call"
        tools = (as_text(message.get("recipient")),) if is_call else ()
        return Message(
            id=name,
            parent=parent,
            place=place,
            role="assistant" if is_call else "",
            at=at,
            tools=tools,
            skipped=() if is_call else (reason,),
        )
    is_user = role == "user"
    texts, attachments, skipped = _parts(message.get("content"), metadata, is_user=is_user)
    if not texts and not (is_user and attachments):
        return Message(id=name, parent=parent, place=place, skipped=skipped or ("empty",))
    return Message(
        id=name,
        parent=parent,
        place=place,
        role="user" if is_user else "assistant",
        texts=("\n\n".join(texts),) if texts else (),
        at=at,
        model="" if is_user else as_text(metadata.get("model_slug")) or default_model,
        attachments=attachments if is_user else (),
        status="open" if is_user else _status(message, metadata),
        skipped=skipped,
    )


def _why_no_words(message: dict[str, Any], metadata: dict[str, Any], role: str) -> str:
    """Return why a message holds no words of a person or the model, or an empty string."""
    content, weight = message.get("content"), message.get("weight")
    kind = as_text(content.get("content_type")) if isinstance(content, dict) else ""
    channel = as_text(message.get("channel"))
    is_system = metadata.get("is_user_system_message") is True or kind in _CUSTOM
    checks = (
        (is_system, "custom_instructions"),
        (role == "tool", "tool_output"),
        (role not in ("user", "assistant"), reason_word(role)),
        (any(metadata.get(field) is True for field in _HIDDEN), "hidden"),
        (isinstance(weight, int | float) and not isinstance(weight, bool) and weight == 0, "weight_zero"),
        (kind in _REASONING, "thinking"),
        (as_text(message.get("recipient")) not in ("", "all"), "tool_call"),
        (channel in _SIDE_CHANNELS, channel),
        (kind not in _TEXT_TYPES, reason_word(kind)),
    )
    return next((reason for holds, reason in checks if holds), "")


def _parts(
    content: Any, metadata: dict[str, Any], *, is_user: bool
) -> tuple[list[str], tuple[Attachment, ...], tuple[str, ...]]:
    """Return the texts, the attachments, and why other parts are passed over."""
    content = content if isinstance(content, dict) else {"parts": [content]}
    parts = content.get("parts")
    parts = parts if isinstance(parts, list) else [content.get("text")]
    texts: list[str] = []
    images: list[Attachment] = []
    skipped: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part if is_user else _without_marks(part, metadata))
            continue
        part = _dict(part)  # noqa: PLW2901 - anything else counts as absent
        kind = as_text(part.get("content_type"))
        if kind == "audio_transcription":
            texts.append(as_text(part.get("text")))
        elif kind == "image_asset_pointer":
            images.append(Attachment(kind="image", size_bytes=_size(part.get("size_bytes"))))
        elif part:
            skipped.append(reason_word(kind))
    return [text for text in texts if text.strip()], _files(metadata) or tuple(images), tuple(skipped)


def _files(metadata: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return what the message says of its files; it names images, too, which the parts do not."""
    listed = metadata.get("attachments")
    files = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return tuple(
        Attachment(
            kind="image" if _mime(file).startswith("image/") else "file",
            name=as_text(file.get("name")),
            size_bytes=_size(file.get("size")),
        )
        for file in files
    )


def _mime(file: dict[str, Any]) -> str:
    return as_text(file.get("mime_type")) or as_text(file.get("mimeType"))


def _size(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _status(message: dict[str, Any], metadata: dict[str, Any]) -> ExchangeStatus:
    if _dict(metadata.get("finish_details")).get("type") == "interrupted":
        return "interrupted"
    return "complete" if message.get("end_turn") is True else "open"


def _without_marks(text: str, metadata: dict[str, Any]) -> str:
    """Return a reply without the marks that the application draws citations from; named things keep their name."""
    if "\u3010" in text:
        text = _SOURCE_MARK.sub("", text)
    if not _LONE_MARK.search(text):
        return text
    shown = _shown_words(metadata)
    for run, words in shown.items():
        if run.count(_SPAN_END) > 1:  # several spans that are shown as one
            text = text.replace(run, words)
    return _LONE_MARK.sub("", _SPAN.sub(lambda span: _name_in(span, shown), text))


def _shown_words(metadata: dict[str, Any]) -> dict[str, str]:
    """Return what the application shows in place of each span, the blanks before it left out."""
    references = metadata.get("content_references")
    known = [item for item in references if isinstance(item, dict)] if isinstance(references, list) else []
    return {as_text(item.get("matched_text")).lstrip(" "): as_text(item.get("alt")) for item in known}


def _name_in(span: re.Match[str], shown: dict[str, str]) -> str:
    """Return the words that stand for a span: those that the message tells, else its name; a citation has none."""
    if (words := shown.get(span[0].lstrip(" "))) is not None:
        return f"{span[1]}{words}" if words else ""
    if span[2] == "cite":
        return ""
    try:
        value = json.loads(span[3])
    except (ValueError, RecursionError):
        return ""
    names = [item for item in value[1:2] if isinstance(item, str)] if isinstance(value, list) else []
    return span[1] + names[0] if names else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
