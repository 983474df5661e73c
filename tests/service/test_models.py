from __future__ import annotations

from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import ModelError
from palace_daemon.service import models
from palace_daemon.service.model_host import ModelHost
from palace_daemon.service.models import Models
from palace_daemon.store.spaces import Space, Spaces


def host(model_id: str) -> ModelHost:
    return ModelHost(model_id, HashingEmbedder(model_id=model_id), None)


def answering(space: str, next_: str = "") -> Spaces:
    return Spaces(Space(space, 1, 0), Space(next_, 0, 1) if next_ else None, None)


def is_closed(one: ModelHost) -> bool:
    embedder = one.state().embedder
    assert isinstance(embedder, HashingEmbedder)
    return embedder._is_closed


def test_a_model_is_found_by_the_space_of_its_vectors_and_never_by_another() -> None:
    held = Models(host("new"), lambda space: host("old") if space == "old@1" else None)
    held.start(answering("old@1", "new@1"))
    for space in ("old@1", "new@1"):
        found = held.embedder(space)
        assert found is not None
        assert found.fingerprint == held.state(space).embedder.fingerprint == space  # type: ignore[union-attr]
    for space in ("old@2", "new@2", "third@1", ""):
        assert held.embedder(space) is held.state(space).embedder is None
        assert held.is_lost(space)
    assert held.state("third@1").reason == "the store has vectors of third, but new is loaded"
    assert held.state("new@2").reason == "the store has vectors of another version of new"
    assert held.state("").reason == "the store has no vectors yet"
    held.close()


def test_a_model_that_answers_no_more_is_let_go_when_no_answer_can_need_it() -> None:
    now = [0.0]
    first, second = host("first"), host("second")
    held = Models(first, clock=lambda: now[0])
    held.start(answering("first@1"))
    held.want(second)
    held.follow(answering("first@1", "second@1"))
    held.follow(answering("second@1"))
    assert held.embedder("first@1") is not None  # an answer that was begun before still needs it
    now[0] = models.LEAVING_S - 0.1
    held.follow(answering("second@1"))
    assert not is_closed(first)
    now[0] = models.LEAVING_S
    held.follow(answering("second@1"))
    assert is_closed(first)
    assert held.embedder("first@1") is None
    assert not is_closed(second)
    held.close()
    assert is_closed(second)


def test_giving_up_a_switch_takes_the_loaded_model_again() -> None:
    first = host("first")
    held = Models(first)
    held.start(answering("first@1"))
    held.want(host("second"))
    held.follow(answering("first@1", "second@1"))
    held.want(host("first"))
    assert held.wanted is first


def test_all_models_are_closed_in_the_end() -> None:
    hosts = [host(name) for name in ("first", "second", "third")]
    held = Models(hosts[0])
    held.start(answering("first@1"))
    held.want(hosts[1])
    held.follow(answering("second@1"))
    held.want(hosts[2])
    held.close()
    assert all(map(is_closed, hosts))


def test_a_model_that_is_chosen_again_while_it_leaves_is_taken_back() -> None:
    now = [0.0]
    first, second = host("first"), host("second")
    held = Models(first, clock=lambda: now[0])
    held.start(answering("first@1"))
    held.want(second)
    held.follow(answering("first@1", "second@1"))
    held.want(host("first"))
    held.follow(answering("first@1"))
    held.want(host("second"))
    assert held.wanted is second
    now[0] = models.LEAVING_S
    held.follow(answering("first@1", "second@1"))
    assert not is_closed(second)
    held.close()


def test_a_model_whose_load_failed_is_closed_when_it_is_chosen_again() -> None:
    def fail(_stop: object) -> HashingEmbedder:
        raise ModelError("offline")

    failed = ModelHost("old", None, fail, space="old@1")
    held = Models(host("new"), lambda _space: failed)
    held.start(answering("old@1", "new@1"))
    assert failed._thread is not None
    held.want(host("old"))
    failed._thread.join(5.0)
    assert not failed._thread.is_alive()
    held.close()


def test_a_model_that_is_chosen_after_the_end_is_not_loaded() -> None:
    held = Models(host("first"))
    held.start(answering("first@1"))
    held.close()
    loaded: list[str] = []

    def load(_stop: object) -> HashingEmbedder:
        loaded.append("second")
        return HashingEmbedder(model_id="second")

    late = ModelHost("second", None, load, space="second@1")
    held.want(late)
    late.close()
    assert loaded == []
