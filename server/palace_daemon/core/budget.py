"""How much text an answer may hold, in characters and in tokens."""

from __future__ import annotations


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of ``text``: one for four ASCII characters, one for any other character.

    An estimate on purpose: who asks for a budget has a tokeniser of their own, which nobody here knows.
    """
    if text.isascii():
        return -(-len(text) // 4)
    others = sum(not char.isascii() for char in text)
    return others + -(-(len(text) - others) // 4)


class Budget:
    """What is left of a budget; a side that is None has no bound."""

    def __init__(self, max_chars: int | None, max_tokens: int | None) -> None:
        """Begin with all of it."""
        self._chars = max_chars
        self._tokens = max_tokens

    def take(self, *texts: str, is_forced: bool = False) -> bool:
        """Take room for all of ``texts`` and return True, or take none where there is too little.

        ``is_forced`` takes it anyway; what is left is then nothing.
        """
        chars = sum(map(len, texts))
        tokens = 0 if self._tokens is None else sum(map(estimated_tokens, texts))
        is_within = (self._chars is None or chars <= self._chars) and (self._tokens is None or tokens <= self._tokens)
        if not is_within and not is_forced:
            return False
        self._chars = None if self._chars is None else max(0, self._chars - chars)
        self._tokens = None if self._tokens is None else max(0, self._tokens - tokens)
        return True
