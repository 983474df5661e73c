"""Prompts that a person typed while the agent worked, between their entry and their delivery.

``enqueue`` carries the words. ``remove`` says they were delivered into the running turn, which opens their exchange: no
user line follows, but versions from 2.1.97 write an attachment with the same words, before or after. ``dequeue`` says
they become a normal user line;
``popAll`` that they were pulled back for editing.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field, structs

from palace_daemon.core.drafts import digest
from palace_daemon.core.turns import Place


class Waiting(Struct, array_like=True):
    """One queued prompt; ``text`` is redacted, and empty where the line holds none of a person's words.

    ``digest`` is that of the words, 0 where there are none; it stays when the words are let go.
    """

    text: str
    digest: int
    at: int | None
    place: Place
    flags: tuple[str, ...] = ()
    is_told: bool = False
    """Whether its words reached an exchange by another record."""
    chars: int = 0
    """Size of the words, so that they are found in others once they are let go; 0 where an older state told."""

    def stands_in(self, text: str) -> bool:
        """Return whether the words are lines of ``text``, as several prompts are that become one."""
        chars = self.chars or len(self.text) or len(text)
        start = 0
        while start + chars <= len(text):
            end = start + chars
            if text[end : end + 1] in {"", "\n"} and digest(text[start:end]) == self.digest:
                return True
            start = text.find("\n", start) + 1 or len(text) + 1
        return False


class PromptQueue(Struct, array_like=True):
    """The queue of one session, first in, first out."""

    waiting: list[Waiting] = field(default_factory=list)
    dequeued: int = 0
    """Prompts taken out since the last user line."""
    opened: list[int] = field(default_factory=list)
    """Digests of what was opened without an attachment since the last turn; one that follows late is a repetition."""
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    """Where the session stood at its last record: those of the queue do not tell."""
    taken: list[Waiting] = field(default_factory=list)
    """Without their words, the prompts that were taken out or pulled back since the last user line."""

    def enqueue(self, prompt: Waiting) -> None:
        """Note a prompt that was typed."""
        self.waiting.append(prompt)

    def deliver(self) -> Waiting | None:
        """Return the oldest prompt, which went into the running turn, unless its words are told or none."""
        prompt = self.waiting.pop(0) if self.waiting else None
        if prompt is None or not prompt.digest or prompt.is_told:
            return None
        self.opened.append(prompt.digest)
        return prompt

    def dequeue(self) -> list[Waiting]:
        """Return the oldest prompt, which becomes a user line of its own."""
        self.dequeued += 1
        return self._take(self.waiting[:1])

    def withdraw(self, text: str) -> list[Waiting]:
        """Return the prompts that were pulled back: the one with this text, or all."""
        matching = [prompt for prompt in self.waiting if text and prompt.digest == digest(text)]
        return self._take(matching[:1] or self.waiting)

    def _take(self, prompts: list[Waiting]) -> list[Waiting]:
        gone = [*prompts]
        for prompt in gone:
            self.waiting.remove(prompt)
        self.taken += [structs.replace(prompt, text="") for prompt in gone if prompt.digest]
        return gone

    def become(self, text: str) -> list[Waiting]:
        """Return the prompts that a user line with ``text`` delivers or repeats; call it before :meth:`abandon`."""
        told = [one for one in (*self.taken, *self.waiting) if one.digest and one.stands_in(text)]
        self.taken = []
        return told

    def abandon(self, prompt_text: str) -> tuple[list[Waiting], list[Waiting]]:
        """Return the prompts that a crash left in the queue, and those that ``prompt_text`` repeats.

        Call when another prompt arrives. The program empties its queue before it takes a typed prompt, so what still
        waits was never delivered.
        """
        self.opened = []
        is_from_queue, self.dequeued = self.dequeued > 0, 0
        if is_from_queue:
            return [], []
        waiting, self.waiting = [one for one in self.waiting if one.digest and not one.is_told], []
        asked = digest(prompt_text)
        repeated = [one for one in waiting if (one.text and one.text in prompt_text) or one.digest == asked]
        return [one for one in waiting if one not in repeated], repeated

    def claim(self, text: str) -> Waiting | Literal["new", "told"]:
        """An attachment tells ``text``: return the queue's copy, or whether it opens a turn or repeats one."""
        for prompt in self.waiting:
            if prompt.digest == digest(text) and not prompt.is_told:
                prompt.is_told, prompt.text = True, ""
                return prompt
        if digest(text) in self.opened:
            self.opened.remove(digest(text))
            return "told"
        return "new"
