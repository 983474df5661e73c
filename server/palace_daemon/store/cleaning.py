"""Secrets out of the lines of an export, which may have been written, or changed, by other hands.

Invariant: what mining and remembering kept passes unchanged. So a text that was redacted whole is redacted again as
it was; one that was put together from redacted parts (a reply from its blocks) or changed since (a title, a target
that was cut) loses keys in their issuers' forms alone: labels and marks of two parts would be taken for one secret.
"""

from __future__ import annotations

from msgspec import structs

from palace_daemon.core.redaction import redact, redact_issued
from palace_daemon.store.portable import ExchangeLine, Line, NoteLine, SessionLine


def without_secrets(line: Line) -> Line:
    """Return the line without secrets."""
    match line:
        case ExchangeLine():
            return _exchange(line)
        case NoteLine():
            return _note(line)
        case SessionLine():
            return structs.replace(line, title=redact_issued(line.title))
        case _:
            return line


def _exchange(line: ExchangeLine) -> ExchangeLine:
    clean = structs.replace(
        line,
        user_text=redact(line.user_text),
        reply_text=redact_issued(line.reply_text),
        reply_final_start=0,
        tools=tuple(structs.replace(tool, target=redact_issued(tool.target)) for tool in line.tools),
        attachments=tuple(structs.replace(one, name=redact(one.name)) for one in line.attachments),
    )
    final = line.reply_final_start
    if clean.reply_text != line.reply_text:  # what is replaced before the last message moves it
        final = max(0, len(clean.reply_text) - len(redact_issued(line.reply_text[final:])))
    clean = structs.replace(clean, reply_final_start=final)
    return line if clean == line else structs.replace(clean, flags=tuple(sorted({*line.flags, "redacted"})))


def _note(line: NoteLine) -> NoteLine:
    text = redact(line.text)
    tags = tuple(word for tag in line.tags if (word := _word(tag)))
    return structs.replace(
        line, text=text, tags=tags, author=_word(line.author), redacted=line.redacted or text != line.text
    )


def _word(text: str) -> str:
    """Return a tag or an author as it is remembered."""
    return redact(" ".join(text.split()))
