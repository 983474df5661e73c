"""The made-up sessions of the bench of scale: the same for the same seed, and with the statistics that are stated."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from palace_daemon.bench.scale import figures, text
from palace_daemon.bench.scale.ahead import drawing_ahead
from palace_daemon.bench.scale.figures import Lengths
from palace_daemon.bench.scale.sessions import AGENTS, LAST_MS, Session, draw_sessions
from palace_daemon.core import analysis, statements
from palace_daemon.model import Exchange

SESSIONS = 500


@pytest.fixture(scope="module")
def drawn() -> list[Session]:
    return list(itertools.islice(draw_sessions(7), SESSIONS))


@pytest.fixture(scope="module")
def exchanges(drawn: list[Session]) -> list[Exchange]:
    return [exchange for session in drawn for exchange in session.result.exchanges]


def test_the_same_seed_gives_the_same_sessions_and_another_gives_others(drawn: list[Session]) -> None:
    assert list(itertools.islice(draw_sessions(7), 30)) == drawn[:30]
    assert list(itertools.islice(draw_sessions(8), 30)) != drawn[:30]


@pytest.mark.parametrize("share", [0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0])
def test_a_table_of_lengths_gives_back_its_quantiles(share: float) -> None:
    lengths = Lengths(figures.REPLY_CHARS.quantiles)
    assert lengths.at(np.array([share]))[0] == lengths.quantiles[figures.SHARES.index(share)]


@pytest.mark.parametrize("lengths", [figures.USER_CHARS, figures.REPLY_SENTENCE_WORDS, figures.GAP_SECONDS])
def test_one_length_is_what_many_at_once_are(lengths: Lengths) -> None:
    shares = [*figures.SHARES, *np.random.default_rng(0).random(2_000).tolist()]
    assert [lengths.one(share) for share in shares] == lengths.at(np.array(shares)).tolist()


def test_sessions_drawn_ahead_in_another_process_are_the_same_ones(drawn: list[Session]) -> None:
    with drawing_ahead(7) as coming:
        assert list(itertools.islice(coming, 100)) == drawn[:100]


def test_lengths_grow_between_two_quantiles() -> None:
    found = figures.USER_CHARS.at(np.linspace(0.0, 1.0, 200))
    assert (np.diff(found) >= 0).all()
    assert found.min() == 1


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 0.9])
def test_turns_replies_and_sessions_are_as_long_as_in_real_transcripts(
    share: float, drawn: list[Session], exchanges: list[Exchange]
) -> None:
    at = figures.SHARES.index(share)
    for lengths, found in (
        (figures.USER_CHARS, [len(one.user_text) for one in exchanges if one.user_text]),
        (figures.REPLY_CHARS, [len(one.reply_text) for one in exchanges if one.reply_text]),
    ):
        assert np.quantile(found, share) == pytest.approx(lengths.quantiles[at], rel=0.3)
    of_sessions = np.quantile([len(session.result.exchanges) for session in drawn], share)
    assert of_sessions == pytest.approx(figures.SESSION_EXCHANGES.quantiles[at], rel=0.4)


def test_terms_have_the_shares_of_real_transcripts(exchanges: list[Exchange]) -> None:
    counts: Counter[str] = Counter()
    for exchange in exchanges[:600]:
        counts.update(analysis.term_counts(f"{exchange.user_text}\n{exchange.reply_text}"))
    total = counts.total()
    shares = [count / total for _, count in counts.most_common()]
    for rank in (1, 10, 50, 200, 1_000):
        expected = figures.TERM_SHARES[figures.TERM_RANKS.index(rank)]
        assert shares[rank - 1] == pytest.approx(expected, rel=0.5), rank
    assert len(counts) == pytest.approx(6.35 * total**figures.HEAPS_EXPONENT, rel=0.35), "distinct terms"


def test_an_exchange_holds_about_two_statements(exchanges: list[Exchange]) -> None:
    found = [len(statements.statements(one.user_text, one.reply_text, one.user_kind)) for one in exchanges]
    assert 1.4 < np.mean(found) < 3.2


def test_texts_of_one_project_are_nearer_to_each_other_than_to_those_of_others(drawn: list[Session]) -> None:
    words: dict[str, list[set[str]]] = {}
    for session in drawn:
        reply = " ".join(exchange.reply_text for exchange in session.result.exchanges[:1])
        if len(reply) > 800:
            words.setdefault(session.project, []).append(set(analysis.term_counts(reply)))
    alike = [len(one & other) for said in words.values() for one, other in itertools.pairwise(said)]
    firsts = [said[0] for said in words.values()]
    different = [len(one & other) for one, other in itertools.pairwise(firsts)]
    assert len(alike) > 20
    assert np.mean(alike) > 1.1 * np.mean(different)


def test_keys_are_unique_and_no_exchange_is_empty_or_in_the_future(exchanges: list[Exchange]) -> None:
    assert len({exchange.key for exchange in exchanges}) == len(exchanges)
    assert all(exchange.user_text or exchange.reply_text for exchange in exchanges)
    assert all(exchange.started_at is not None and exchange.started_at < LAST_MS for exchange in exchanges)


def test_most_sessions_are_of_the_first_agent(drawn: list[Session]) -> None:
    counts = Counter(session.agent for session in drawn)
    assert set(counts) <= {name for name, _ in AGENTS}
    assert counts["claude-code"] / SESSIONS == pytest.approx(0.70, abs=0.1)


def test_rare_words_are_names_of_two_words_and_each_rank_has_its_own() -> None:
    first = len(text.word(0))
    assert first
    rare = [text.word(rank) for rank in range(400_000, 400_600)]
    assert len(set(rare)) > 590
    assert any("_" in name for name in rare)
    assert any("/" in name for name in rare)
