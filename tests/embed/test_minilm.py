"""The real models: golden vectors, company, the cap, integer arithmetic."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from palace_daemon.core.ports import Float32
from palace_daemon.embed import arithmetic, graph_int8, minilm, registry, runtime
from palace_daemon.embed.install import golden
from palace_daemon.embed.minilm import BATCH_TEXTS_MAX, BATCH_TOKENS_MAX, OnnxEmbedder
from palace_daemon.errors import ModelError

INT8 = "all-minilm-l6-v2-int8"


def cosines(left: Float32, right: Float32) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Row by row, in float64, so that rounding of the comparison does not count."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    return np.asarray((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def generated_texts(count: int) -> list[str]:
    """Mixed lengths and scripts, seeded; cut from the golden texts so that they are language, not noise."""
    rng = random.Random(20)
    words = [word for text in golden()[0] for word in text.replace("\n", " \n ").split(" ") if word]
    pieces = [word[start : start + 12] for word in words for start in range(0, len(word), 12)]
    texts = []
    for _ in range(count):
        start = rng.randrange(len(pieces))
        texts.append(" ".join((pieces[start:] + pieces)[: rng.choice([1, 2, 5, 12, 30, 60])]))
    return texts


def real_paragraphs(folder: Path, count: int) -> list[str]:
    """Paragraphs of real transcripts, at most 700 characters each."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            for paragraph in _texts_of(line):
                if len(paragraph) > 40:
                    found[paragraph[:700]] = None
    texts = list(found)
    random.Random(3).shuffle(texts)
    return texts[:count]


def _texts_of(line: str) -> list[str]:
    try:
        content = json.loads(line)["message"]["content"]
    except (ValueError, KeyError, TypeError):
        return []
    blocks = [content] if isinstance(content, str) else [b.get("text", "") for b in content if isinstance(b, dict)]
    return [paragraph for block in blocks for paragraph in block.split("\n\n")]


# ------------------------------------------------------------------------------------------------------- vectors


def test_fp32_agrees_with_the_independent_float64_reference(fp32: OnnxEmbedder) -> None:
    texts, expected = golden()
    assert np.abs(fp32.embed_passages(texts) - expected).max() < 1e-6


def test_int8_is_close_to_the_reference(int8: OnnxEmbedder) -> None:
    texts, expected = golden()
    found = cosines(int8.embed_passages(texts), expected.astype(np.float32))
    assert found.mean() >= 0.9975
    assert found.min() >= 0.985  # a text of one word; the longer ones stay above 0.994


def test_golden_texts_cover_the_kinds_and_the_cap(int8: OnnxEmbedder) -> None:
    texts, vectors = golden()
    lengths = [int8.count(text) for text in texts]
    assert len(texts) == len(vectors) == 20
    assert min(lengths) == 3
    assert max(lengths) == 512
    assert any("def " in text for text in texts)
    assert any("\u4e00" <= char <= "\u9fff" for text in texts for char in text)
    assert any("\u0430" <= char <= "\u044f" for text in texts for char in text)


@pytest.fixture(scope="module")
def alone(int8: OnnxEmbedder) -> Float32:
    """The vectors of 300 generated texts, each embedded by itself."""
    return np.array([int8.embed_query(text) for text in generated_texts(300)])


@pytest.mark.parametrize("threads", [1, 3])
def test_an_int8_vector_does_not_depend_on_company(alone: Float32, models_dir: Path, threads: int) -> None:
    texts = generated_texts(300)
    order = list(range(len(texts)))
    random.Random(threads).shuffle(order)
    other = minilm.load(INT8, models_dir, threads=threads)
    try:
        together = other.embed_passages([texts[i] for i in order])
    finally:
        other.close()
    assert cosines(together, alone[order]).min() >= 0.99999
    assert np.array_equal(together, alone[order]), "one text a call should even be equal to the bit"


def test_an_fp32_vector_does_not_depend_on_its_batch(fp32: OnnxEmbedder) -> None:
    texts = generated_texts(150)
    alone = np.array([fp32.embed_query(text) for text in texts])
    assert cosines(fp32.embed_passages(texts), alone).min() >= 0.99999
    assert cosines(fp32.embed_passages(texts[::-1]), alone[::-1]).min() >= 0.99999


@pytest.mark.shared
def test_on_real_paragraphs_int8_is_close_to_fp32_and_needs_no_company(
    int8: OnnxEmbedder, fp32: OnnxEmbedder, shared_transcripts: Path
) -> None:
    found_texts = real_paragraphs(shared_transcripts / "claude-code", 220)
    texts = [text for text in found_texts if int8.count(text) <= int8.max_tokens]
    assert len(texts) >= 200
    together = int8.embed_passages(texts)
    found = cosines(together, fp32.embed_passages(texts))
    assert found.mean() >= 0.997
    assert found.min() >= 0.98
    by_itself = np.array([int8.embed_query(text) for text in texts[::2]])
    assert cosines(together[::2], by_itself).min() >= 0.99999


# ------------------------------------------------------------------------------------------------------- the cap


@pytest.mark.parametrize("name", ["int8", "fp32"])
def test_a_text_above_the_cap_is_refused_without_its_words(request: pytest.FixtureRequest, name: str) -> None:
    embedder: OnnxEmbedder = request.getfixturevalue(name)
    with pytest.raises(ModelError, match="text 1 has 513 tokens, more than the 512") as caught:
        embedder.embed_passages(["short", "secretword " + "a " * 509])
    assert "secretword" not in str(caught.value)


@pytest.mark.parametrize("name", ["int8", "fp32"])
def test_a_text_at_the_cap_is_taken_whole(request: pytest.FixtureRequest, name: str) -> None:
    embedder: OnnxEmbedder = request.getfixturevalue(name)
    text = "a " * 509 + "tomato"
    assert embedder.count(text) == 512
    before = embedder.truncated
    vectors = embedder.embed_passages([text, text.replace("tomato", "database")])
    assert embedder.truncated == before
    assert vectors[0] @ vectors[1] < 0.9999, "the last word must count"


@pytest.mark.parametrize("name", ["int8", "fp32"])
def test_truncation_on_request_is_counted(request: pytest.FixtureRequest, name: str) -> None:
    embedder: OnnxEmbedder = request.getfixturevalue(name)
    before = embedder.truncated
    long, whole = "tree " * 700, "tree " * 510
    vectors = embedder.embed_passages([long, "short", whole], truncate=True)
    assert embedder.truncated == before + 1
    assert vectors[0] @ vectors[2] >= 0.99999


def test_a_long_query_is_answered_by_its_beginning_and_counted(int8: OnnxEmbedder) -> None:
    before, passages = int8.truncated_queries, int8.truncated
    vector = int8.embed_query("tree " * 700)
    assert int8.truncated_queries == before + 1
    assert int8.truncated == passages
    assert np.array_equal(vector, int8.embed_query("tree " * 510))


def test_fp32_batches_are_sorted_and_bounded(fp32: OnnxEmbedder) -> None:
    texts = [*generated_texts(60), *(["tree " * 510] * 9)]
    jobs = list(fp32._batches(texts, truncate=False))
    assert sorted(row for rows, _ in jobs for row in rows) == list(range(len(texts)))
    assert all(len(rows) <= BATCH_TEXTS_MAX for rows, _ in jobs)
    assert all(len(ids) * max(map(len, ids)) <= BATCH_TOKENS_MAX for _, ids in jobs)
    widths = [len(text) for _, ids in jobs for text in ids]
    assert widths == sorted(widths)
    assert len(jobs) < len(texts) / 3, "batches should be filled"


# ------------------------------------------------------------------------------------------------------- running


def test_work_in_flight_is_bounded(int8: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    def texts_taken(self: OnnxEmbedder, texts: list[str], *, truncate: bool) -> object:
        nonlocal taken
        for row, text in enumerate(texts):
            taken += 1
            yield [row], [self._encode(text, row, truncate=truncate)]

    monkeypatch.setattr(OnnxEmbedder, "_singles", texts_taken)

    class Stop:
        def is_set(self) -> bool:
            return True

    with pytest.raises(Exception, match="stopped"):
        int8.embed_passages(["tree"] * 1_000, Stop())
    assert taken == int8.threads * minilm.IN_FLIGHT_PER_THREAD


def test_a_query_does_not_wait_behind_passages(
    int8: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []
    begun: list[int] = []
    run = int8._session.run

    class Counted:
        def run(self, *arguments: Any) -> Any:
            begun.append(threading.get_ident())
            return run(*arguments)

    monkeypatch.setattr(int8, "_session", Counted())

    def embed() -> None:
        try:
            int8.embed_passages(["tree " * 500] * 500, stop)
        except BaseException as exc:  # noqa: BLE001 - looked at below
            failures.append(exc)

    worker = threading.Thread(target=embed)
    worker.start()
    try:
        wait_until(lambda: begun)
        int8.embed_query("where is the queue?")
        passages = sum(thread != threading.get_ident() for thread in begun)
        assert worker.is_alive()
    finally:
        stop.set()
        worker.join()
    assert threading.get_ident() in begun
    assert passages < 100, "of 500, which take about a minute"
    assert [type(exc).__name__ for exc in failures] == ["CancelledError"]


def test_zero_threads_takes_the_usable_cores(models_dir: Path) -> None:
    embedder = minilm.load(INT8, models_dir)
    embedder.close()
    assert embedder.threads == minilm.usable_cores() >= 1
    with pytest.raises(ModelError, match="negative"):
        minilm.load(INT8, models_dir, threads=-1)


# ---------------------------------------------------------------------------------------------- integer arithmetic


def test_products_of_the_graphs_range_are_exact_here(int8: OnnxEmbedder, fp32: OnnxEmbedder) -> None:
    found = int8.integer_arithmetic
    assert found is not None
    assert found.products == "exact"
    assert fp32.integer_arithmetic is None


def test_the_precise_kernels_are_exact_over_the_full_range() -> None:
    assert arithmetic._is_exact(255, precise=True)


def test_the_probe_would_saturate_in_16_bits() -> None:
    """Two neighbouring products of the full range leave int16, two of the graph's range do not."""
    limit = np.iinfo(np.int16).max
    assert limit < 2 * 255 * graph_int8.WEIGHT_MAX
    assert limit >= 2 * graph_int8.ACTIVATION_MAX * graph_int8.WEIGHT_MAX


def test_saturating_products_fall_back_to_the_precise_kernels(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arithmetic.integer_arithmetic.cache_clear()
    monkeypatch.setattr(arithmetic, "_is_exact", lambda activation_max, *, precise: precise)
    try:
        found = arithmetic.integer_arithmetic()
        assert (found.products, found.full_range, found.precise_kernels) == ("exact", "saturates", True)
        assert minilm._needs_precise_kernels(registry.spec(INT8))
        assert not caplog.records
        arithmetic.integer_arithmetic.cache_clear()
        monkeypatch.setattr(arithmetic, "_is_exact", lambda activation_max, *, precise: False)
        minilm._needs_precise_kernels(registry.spec(INT8))
        assert "saturate" in caplog.text
    finally:
        arithmetic.integer_arithmetic.cache_clear()


def test_every_integer_product_of_the_model_is_exact(models_dir: Path, int8: OnnxEmbedder) -> None:
    """Read the inputs and outputs of all products in the real graph and redo them in whole numbers."""
    model = onnx.load(str(models_dir / INT8 / registry.GRAPH_FILE))
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == "MatMulIntegerToFloat"]
    assert len(products) == 36  # 6 layers: query, key, value, output, up, down
    names = list(dict.fromkeys(name for node in products for name in (node.input[0], node.output[0])))
    known = {output.name for output in model.graph.output}
    for name in names:
        is_rounded = name.startswith(("QuantizeLinear", "Clip"))
        kind = onnx.TensorProto.UINT8 if is_rounded else onnx.TensorProto.FLOAT
        assert name not in known
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for text in golden()[0][:12]:
        ids = np.array([int8._tokenizer.encode(text).ids])
        values = dict(zip(names, session.run(names, {"input_ids": ids}), strict=True))
        for node in products:
            left, weights = values[node.input[0]], constants[node.input[1]]
            assert left.max() <= graph_int8.ACTIVATION_MAX
            assert np.abs(weights.astype(np.int64)).max() <= graph_int8.WEIGHT_MAX
            # float64 holds these whole numbers exactly, and multiplies matrices much faster than int64.
            sums = (left.astype(np.float64) - float(constants[node.input[4]])) @ weights.astype(np.float64)
            expected = sums.astype(np.float32) * constants[node.input[3]]
            bias = constants[node.input[6]] if len(node.input) > 6 else None
            found = values[node.output[0]]
            # Scale and bias may be rounded together, in one step, or one after the other.
            assert np.array_equal(found, expected) if bias is None else np.allclose(found, expected + bias, 1e-6, 1e-6)


def test_slow_and_fast_kernels_give_the_same_vectors(models_dir: Path, int8: OnnxEmbedder) -> None:
    """The precise kernels cannot saturate; if the default ones did anywhere in the model, the vectors would differ."""
    session = runtime.open_session(models_dir / INT8 / registry.GRAPH_FILE, precise=True)
    precise = OnnxEmbedder(registry.spec(INT8), session, int8._tokenizer, threads=1)
    try:
        for text in golden()[0]:
            assert np.array_equal(precise.embed_query(text), int8.embed_query(text))
    finally:
        precise.close()
