"""The bundled model's calls: windows, limits, turns of tenants, the child process."""

import asyncio
import math
import sys
from pathlib import Path

import msgspec
import pytest

from antiphon.embeddings import local
from antiphon.embeddings.local import LocalEmbedder
from antiphon.embeddings.minilm import DIMENSIONS, WINDOW_TOKENS, MiniLm, ModelFiles, is_installed
from antiphon.embeddings.vectors import to_floats
from antiphon.embeddings.work import Result, Work, run_with
from antiphon.errors import (
    BackendBroken,
    BackendError,
    InvalidRequest,
    TooManyRequests,
    Unavailable,
    Unsupported,
)
from tests.embeddings.word_model import NO_FILES, RUN, WordModel, word_embedder


def work(model: WordModel, *texts: str, counts_only: bool = False) -> Result:
    payload = msgspec.msgpack.encode(Work(NO_FILES, 1, texts, counts_only))
    return msgspec.msgpack.decode(run_with(payload, lambda _files, _threads: model), type=Result)


def test_a_long_text_is_embedded_in_windows_and_nothing_is_cut_off() -> None:
    model = WordModel()
    first, second = "alpha " * WINDOW_TOKENS, "omega " * (WINDOW_TOKENS // 2)
    whole, a, b = work(model, first + second, first, second).vectors
    assert model.windows == [WINDOW_TOKENS, WINDOW_TOKENS // 2, WINDOW_TOKENS, WINDOW_TOKENS // 2]
    mean = [2 * x + y for x, y in zip(to_floats(a), to_floats(b), strict=True)]
    length = math.sqrt(sum(x * x for x in mean))
    assert to_floats(whole) == pytest.approx([x / length for x in mean], abs=1e-6)


def test_a_text_without_tokens_has_a_vector() -> None:
    result = work(WordModel(), " ")
    assert (result.tokens, len(result.vectors)) == ([0], 1)


def test_only_tokens_are_counted_if_nothing_more_is_asked_for() -> None:
    model = WordModel()
    assert work(model, "a b", "c", counts_only=True) == Result([2, 1], [])
    assert model.windows == []


@pytest.mark.parametrize("text", ["a " * 8193, "a" * (local.MAX_INPUT_CHARACTERS + 1)])
async def test_a_text_that_is_too_long_is_rejected(text: str) -> None:
    embedder = word_embedder()
    with pytest.raises(InvalidRequest) as caught:
        await embedder.embed(["fine", text])
    assert (caught.value.param, caught.value.code) == ("input[1]", "context_length_exceeded")
    await embedder.aclose()


async def test_a_call_that_is_too_long_is_rejected() -> None:
    embedder = word_embedder()
    with pytest.raises(InvalidRequest, match="320000 tokens together") as caught:
        await embedder.embed(["a " * 8000] * 40)
    assert (caught.value.param, caught.value.code) == ("input", "context_length_exceeded")
    await embedder.aclose()


async def test_a_text_with_many_characters_and_few_tokens_is_embedded() -> None:
    embedder = word_embedder()
    found = await embedder.embed(["word" + " " * 100_000])
    assert (len(found.vectors), found.tokens) == (1, 1)
    await embedder.aclose()


async def test_dimensions_and_token_ids_are_rejected_with_a_reason() -> None:
    embedder = word_embedder()
    with pytest.raises(Unsupported, match=f"{DIMENSIONS} dimensions") as caught:
        await embedder.embed(["x"], dimensions=256)
    assert caught.value.param == "dimensions"
    with pytest.raises(Unsupported, match="check_embedding_ctx_length=False") as caught:
        await embedder.embed([[1, 2]])
    assert caught.value.param == "input"
    await embedder.aclose()


async def test_tenants_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "EMBEDDED_CHARACTERS", 1)
    embedder = word_embedder()
    await embedder.embed(["start"])
    large = asyncio.create_task(embedder.embed(["sleep"] * 100, tenant="large"))
    await asyncio.sleep(0.1)
    await embedder.embed(["b"], tenant="small")
    assert not large.done()
    large.cancel()
    await asyncio.gather(large, return_exceptions=True)
    await embedder.aclose()


async def test_a_query_goes_before_the_long_calls_of_its_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SHORT_CALL_CHARACTERS", 10, raising=False)
    embedder = word_embedder()
    await embedder.embed(["start"])
    ended: list[str] = []

    async def embed(name: str, text: str) -> None:
        await embedder.embed([text], tenant="t")
        ended.append(name)

    files = [asyncio.create_task(embed(f"file {number}", "sleep for a while")) for number in range(10)]
    await asyncio.sleep(0.1)
    await asyncio.gather(*(embed(f"query {number}", "a") for number in range(2)))
    assert not files[-1].done()
    await asyncio.gather(*files)
    assert [name for name in ended if name.startswith("query")] == ["query 0", "query 1"]
    assert [name for name in ended if name.startswith("file")] == [f"file {number}" for number in range(10)]
    await embedder.aclose()


async def test_a_tenant_with_too_many_waiting_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_WAITING_CHARACTERS", 10)
    embedder = word_embedder()
    first = asyncio.create_task(embedder.embed(["sleep for more than ten characters"], tenant="t"))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await embedder.embed(["one more"], tenant="t")
    await asyncio.gather(first, embedder.embed(["another tenant waits"], tenant="u"))
    await embedder.embed(["one more"], tenant="t")
    await embedder.aclose()


async def test_a_crash_and_a_fault_of_the_process_end_one_call_only() -> None:
    embedder = word_embedder()
    for word in ("crash", "break"):
        with pytest.raises(BackendBroken) as caught:
            await embedder.embed([word])
        assert caught.value.status == 502
        assert len((await embedder.embed(["well"])).vectors) == 1
    await embedder.aclose()


async def test_weights_that_cannot_be_fetched_are_the_error_and_are_tried_again() -> None:
    attempts: list[ModelFiles] = []

    def locate() -> ModelFiles:
        attempts.append(NO_FILES)
        if len(attempts) == 1:
            raise BackendError("no space", code="model_unavailable")
        return NO_FILES

    embedder = LocalEmbedder(locate, run=RUN)
    with pytest.raises(BackendError, match="no space"):
        await embedder.embed(["a"])
    assert len((await embedder.embed(["a"])).vectors) == 1
    await embedder.aclose()


async def test_closing_ends_waiting_calls() -> None:
    embedder = word_embedder()
    await embedder.embed(["start"])
    calls = [asyncio.create_task(embedder.embed(["sleep"] * 3, tenant=str(number))) for number in range(3)]
    await asyncio.sleep(0.02)
    await embedder.aclose()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in ended] == [Unavailable] * 3
    with pytest.raises(Unavailable):
        await embedder.embed(["a"])


def test_without_its_packages_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(BackendBroken, match=r"retrieval|make -C"):
        MiniLm(NO_FILES)


@pytest.mark.skipif(not is_installed(), reason="antiphon[retrieval] is missing")
def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    model, tokenizer = tmp_path / "model", tmp_path / "tokenizer"
    model.write_bytes(b"x")
    tokenizer.write_bytes(b"{}")
    with pytest.raises(BackendBroken, match="cannot be loaded"):
        MiniLm(ModelFiles(str(model), str(tokenizer)))
