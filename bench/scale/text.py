"""Seeded prose with the statistics of real transcripts: words by rank, sentences, paragraphs, code.

Words are those of the tokenizer's vocabulary, which stand there by their frequency in English; the rarest ones, of
which there is no end in real transcripts, are names put together from two of them, as identifiers and paths are.
Only :meth:`numpy.random.Generator.random` is drawn from, whose stream is the same in every version.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from palace_daemon.bench.scale import figures
from palace_daemon.bench.scale.figures import Lengths
from palace_daemon.embed.tokens import packaged_tokenizer

Ranks = NDArray[np.int64]

VOCABULARY_TERMS = 600_000
"""Ranks that can be drawn; a million drawers hold most of them."""
TOPIC_RANKS = (100, 30_000)
"""Ranks of the words of which a topic can be: neither those of all texts nor those of one text."""
TOPIC_WORDS = 160
TOPIC_SHARE = 0.6
"""Words of a text, beside those of all texts, that are of its topic: texts of one project lie nearer to each other."""
_CHARS_PER_WORD = 5.0
_MIXING = 2_654_435_761
"""Spreads neighbouring ranks over the words that names are made of."""
_NAME_WORDS = 6_000


@functools.cache
def _words() -> tuple[str, ...]:
    """Return the English words of the tokenizer, by frequency."""
    found = packaged_tokenizer().get_vocab().items()
    known = sorted((place, word) for word, place in found if word.isascii() and word.isalpha() and len(word) > 1)
    return ("i", "a", *(word for _, word in known))


@functools.cache
def _cumulative() -> NDArray[np.float64]:
    """Return float64 ``[VOCABULARY_TERMS]``: the share of all words that are of this rank or a smaller one."""
    ranks = np.arange(1, VOCABULARY_TERMS + 1, dtype=np.float64)
    known, shares = np.log(figures.TERM_RANKS), np.log(figures.TERM_SHARES)
    logarithms = np.interp(np.log(ranks), known, shares)
    tail = ranks > figures.TERM_RANKS[-1]
    logarithms[tail] = shares[-1] - (np.log(ranks[tail]) - known[-1]) / figures.HEAPS_EXPONENT
    summed = np.cumsum(np.exp(logarithms))
    return np.asarray(summed / summed[-1])


def word(rank: int) -> str:
    """Return the word of a rank, counted from 0."""
    words = _words()
    if rank < len(words):
        return words[rank]
    mixed = rank * _MIXING
    one, other = words[mixed % _NAME_WORDS], words[(mixed // _NAME_WORDS) % _NAME_WORDS]
    return _FORMS[rank % len(_FORMS)].format(one, other, other.capitalize(), rank % 1_000)


_FORMS = ("{0}_{1}", "{0}{2}", "{0}.{1}", "src/{0}/{1}.py", "{0}-{1}", "{0}{3}")


class _Vocabulary:
    """The words by rank, each made up when it is first drawn."""

    def __init__(self) -> None:
        self._words = np.empty(VOCABULARY_TERMS, object)
        self._is_known = np.zeros(VOCABULARY_TERMS, np.bool_)

    def of(self, ranks: Ranks) -> list[str]:
        """Return the words of ranks."""
        for rank in ranks[~self._is_known[ranks]].tolist():
            self._words[rank] = word(rank)
        self._is_known[ranks] = True
        found: list[str] = self._words[ranks].tolist()
        return found


_VOCABULARY = _Vocabulary()


class Prose:
    """Draws texts from one stream of random numbers. Not thread-safe."""

    def __init__(self, random: np.random.Generator) -> None:
        """Take the stream."""
        self._random = random

    def topic(self) -> Ranks:
        """Return the ranks of the words that a project talks about."""
        low, high = _cumulative()[list(TOPIC_RANKS)]
        shares = low + (high - low) * self._random.random(TOPIC_WORDS)
        ranks: Ranks = np.searchsorted(_cumulative(), shares).astype(np.int64)
        return ranks

    def words(self, count: int, topic: Ranks) -> list[str]:
        """Return ``count`` words, some of them of the topic."""
        ranks = np.searchsorted(_cumulative(), self._random.random(count)).astype(np.int64)
        of_topic = (ranks >= TOPIC_RANKS[0]) & (self._random.random(count) < TOPIC_SHARE)
        places = (self._random.random(count) ** 2 * len(topic)).astype(np.int64)  # some are said more often
        ranks[of_topic] = topic[places[of_topic]]
        return _VOCABULARY.of(np.minimum(ranks, VOCABULARY_TERMS - 1))

    def length(self, lengths: Lengths) -> int:
        """Return one length of a distribution."""
        return lengths.one(self._random.random())

    def chance(self, share: float) -> bool:
        """Return True in ``share`` of all cases."""
        return bool(self._random.random() < share)

    def place(self, count: int) -> int:
        """Return a place below ``count``."""
        return int(self._random.random() * count)

    def user_turn(self, topic: Ranks) -> str:
        """Return what a person says; empty where a session begins with the agent."""
        if self.chance(figures.NO_USER_TURN):
            return ""
        chars = self.length(figures.USER_CHARS)
        pasted = chars - figures.TYPED_CHARS if self.chance(figures.PASTED_TURNS) else 0
        said = self._text(chars - max(0, pasted), figures.USER_SENTENCE_WORDS, topic, questions=figures.LATER_QUESTIONS)
        return f"{said}\n\n```\n{self._code(pasted, topic)}\n```" if pasted > 0 else said

    def reply(self, topic: Ranks) -> str:
        """Return what the agent answers; empty where it was interrupted."""
        if self.chance(figures.NO_REPLY):
            return ""
        chars = self.length(figures.REPLY_CHARS)
        if not self.chance(figures.CODE_REPLIES):
            return self._text(chars, figures.REPLY_SENTENCE_WORDS, topic)
        code_chars = int(chars * figures.CODE_CHARS)
        prose = self._text(chars - code_chars, figures.REPLY_SENTENCE_WORDS, topic)
        return f"{prose}\n\n```\n{self._code(code_chars, topic)}\n```"

    def _text(self, chars: int, sentence_words: Lengths, topic: Ranks, *, questions: float = 0.0) -> str:
        """Return sentences in paragraphs, ``chars`` characters and the rest of the last word."""
        count = int(chars / _CHARS_PER_WORD) + int(sentence_words.quantiles[-1])
        words = self.words(count, topic)
        sizes = map(sentence_words.one, self._random.random(count).tolist())  # of which mostly an eighth is needed
        asks = self._random.random(count).tolist()
        parts: list[str] = []
        total = paragraph = begin = 0
        paragraph_chars = self.length(figures.PARAGRAPH_CHARS)
        for number, size in enumerate(sizes):
            share = figures.FIRST_QUESTIONS if questions and not number else questions
            said = _fitting(words[begin : begin + size], chars - total)
            sentence = _sentence(said, is_question=asks[number] < share)
            if parts:
                is_new = paragraph >= paragraph_chars
                parts.append("\n\n" if is_new else " ")
                if is_new:
                    paragraph, paragraph_chars = 0, self.length(figures.PARAGRAPH_CHARS)
            parts.append(sentence)
            begin, total, paragraph = begin + size, total + len(sentence) + 1, paragraph + len(sentence) + 1
            if total >= chars or begin >= count:
                break
        return "".join(parts)

    def _code(self, chars: int, topic: Ranks) -> str:
        words = self.words(int(chars / _CHARS_PER_WORD) + 4, topic)
        lines: list[str] = []
        total = 0
        for at in range(0, len(words) - 3, 4):
            one, two, three, four = words[at : at + 4]
            line = f"    {one} = {two}({three}, {four}, {at})" if at % 3 else f"def {one}({two}: {three}) -> {four}:"
            lines.append(line)
            total += len(line) + 1
            if total >= chars:
                break
        return "\n".join(lines)


def _fitting(words: list[str], chars: int) -> list[str]:
    """Return the first of ``words``, until they have ``chars`` characters."""
    if sum(map(len, words)) + len(words) < chars:
        return words
    for number, one in enumerate(words):
        chars -= len(one) + 1
        if chars <= 0:
            return words[: number + 1]
    return words


def _sentence(words: list[str], *, is_question: bool) -> str:
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]}{'?' if is_question else '.'}"
