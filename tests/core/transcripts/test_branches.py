"""Which turns going back to a record undoes."""

from __future__ import annotations

from palace_daemon.core.transcripts.reading.branches import TurnLedger


def ledger(*records: str) -> TurnLedger:
    """Return a ledger over these records; one with an exclamation mark opens a turn."""
    told = TurnLedger()
    for record in records:
        told.note(record.rstrip("!"), opens=record.endswith("!"))
    return told


def test_going_back_to_a_record_undoes_the_turns_after_it() -> None:
    told = ledger("start", "u1!", "a1", "u2!", "a2", "u3!")
    assert told.back_to("a1") == ("u2", "u3")
    assert told.turns == ["u1"]
    assert told.back_to("a1") == ()


def test_a_turn_is_undone_only_by_going_back_before_it() -> None:
    assert ledger("u1!", "a1", "u2!").back_to("u2") == ()
    assert ledger("u1!", "a1", "u2!").back_before("u2") == ("u2",)
    assert ledger("u1!", "a1", "u2!").back_before("a1") == ("u2",)


def test_records_of_an_abandoned_branch_are_forgotten() -> None:
    told = ledger("u1!", "a1", "u2!", "a2")
    told.back_to("a1")
    assert not told.knows("a2")
    told.note("u3", opens=True)
    assert told.back_to("a2") == ()
    assert told.turns == ["u1", "u3"]


def test_an_unknown_record_undoes_nothing() -> None:
    assert ledger("u1!").back_to("gone") == ()
    assert ledger("u1!").back_before("gone") == ()


def test_going_back_to_the_start_undoes_all() -> None:
    assert ledger("u1!", "a1", "u2!").back_to_start() == ("u1", "u2")


def test_a_record_that_comes_twice_counts_once() -> None:
    assert ledger("u1!", "u1!", "", "a1").turns == ["u1"]
