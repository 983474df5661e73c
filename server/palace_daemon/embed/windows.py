"""Embeds with a model that a person added: its prefixes, and texts that are longer than it can read.

Drawers are cut by the packaged tokenizer, so that changing the model does not cut the store anew. A model that takes
fewer tokens, or whose tokenizer needs more for a script, therefore meets texts above its cap. Such a text is read in
windows that each fit, cut at word ends, and its vector is the mean of theirs, weighted by their tokens: all of the text
counts, it still has one vector, and that depends on the text alone. How many texts that were is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palace_daemon.embed.minilm import OnnxEmbedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    from palace_daemon.core.ports import Float32, StopSignal
    from palace_daemon.embed.registry import ModelSpec


class WindowedEmbedder(OnnxEmbedder):
    """Puts the model's prefixes before texts, and reads long ones in windows. Thread-safe."""

    def __init__(self, spec: ModelSpec, session: InferenceSession, tokenizer: Tokenizer, threads: int) -> None:
        super().__init__(spec, session, tokenizer, threads)
        self._query_prefix = spec.query_prefix
        self._passage_prefix = spec.passage_prefix
        self.windowed = 0
        """Passages that were read in several windows."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a passage, special tokens and prefix included, without truncation."""
        return super().count(self._passage_prefix + text)

    def embed_passages(
        self, texts: Sequence[str], stop: StopSignal | None = None, *, truncate: bool = False
    ) -> Float32:
        """Return float32 ``[n, dim]``, rows L2-normalised, in the order of ``texts``; see the base class.

        A text above ``max_tokens`` is read in windows, or cut where ``truncate`` asks for it.
        """
        if truncate:
            return super().embed_passages([self._passage_prefix + text for text in texts], stop, truncate=True)
        pieces = [split(self._tokenizer, text, self.max_tokens, self._passage_prefix) for text in texts]
        flat = [piece for parts in pieces for piece in parts]
        vectors = super().embed_passages([self._passage_prefix + piece for piece in flat], stop)
        if len(flat) == len(texts):
            return vectors
        return self._joined(pieces, vectors)

    def embed_query(self, text: str) -> Float32:
        """Return float32 ``[dim]``; see the base class."""
        return super().embed_query(self._query_prefix + text)

    def _joined(self, pieces: Sequence[Sequence[str]], vectors: Float32) -> Float32:
        """Return one vector a text from those of its windows."""
        joined = np.empty((len(pieces), self.dim), np.float32)
        start = 0
        for row, parts in enumerate(pieces):
            found = vectors[start : start + len(parts)]
            joined[row] = found[0] if len(parts) == 1 else self._mean(parts, found)
            start += len(parts)
        with self._lock:
            self.windowed += sum(len(parts) > 1 for parts in pieces)
        return joined

    def _mean(self, parts: Sequence[str], found: Float32) -> Float32:
        weights = np.array([len(self._tokenizer.encode(part, add_special_tokens=False).ids) for part in parts], float)
        mean = weights @ found
        norm = float(np.linalg.norm(mean))
        # Windows that cancel each other out to the last bit: any of them is as good as another.
        return np.asarray(mean / norm, np.float32) if norm > 0.0 else found[0]


def split(tokenizer: Tokenizer, text: str, max_tokens: int, prefix: str = "") -> list[str]:
    """Return ``text``, or the pieces of it that each fit together with ``prefix``; together they hold every token.

    Args:
        tokenizer: Neither truncates nor pads.
        text: Any text.
        max_tokens: Most tokens of prefix and piece, special tokens included; the prefix must leave room.
        prefix: Will stand before each piece.
    """
    if len(tokenizer.encode(prefix + text).ids) <= max_tokens:
        return [text]
    whole = tokenizer.encode(text, add_special_tokens=False)
    offsets, words = whole.offsets, whole.word_ids
    room = max(1, max_tokens - len(tokenizer.encode(prefix).ids))
    pieces: list[str] = []
    start = 0
    while start < len(offsets):
        end = _word_end(words, start, min(start + room, len(offsets)))
        piece = text[offsets[start][0] : offsets[end - 1][1]]
        # A piece that begins within a word may need other tokens than it had there.
        while (over := len(tokenizer.encode(prefix + piece).ids) - max_tokens) > 0 and end - start > 1:
            end = _word_end(words, start, max(start + 1, end - over))
            piece = text[offsets[start][0] : offsets[end - 1][1]]
        pieces.append(piece)
        start = end
    return pieces


def _word_end(words: Sequence[int | None], start: int, end: int) -> int:
    """Return the last end of a word at or before token ``end``, or ``end`` where the word fills the window."""
    at = end
    while start < at < len(words) and words[at] is not None and words[at] == words[at - 1]:
        at -= 1
    return at if at > start else end
