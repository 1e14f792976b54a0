"""The bodies of `/v1/vector_stores`."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.vector_stores import (
    DEFAULT_CHUNKING,
    Chunking,
    FoundText,
    StaticChunking,
    parse_attributes,
    parse_file_batch,
    parse_new_store,
    parse_search,
    parse_store_change,
    parse_store_file,
)

STATIC = {"type": "static", "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 100}}
BAD_BATCHES: list[tuple[dict[str, Any], str]] = [
    ({}, "file_ids"),
    ({"file_ids": [], "files": []}, "file_ids"),
    ({"file_ids": []}, "file_ids"),
    ({"file_ids": [f"file-{n}" for n in range(2001)]}, "file_ids"),
    ({"file_ids": ["file-1", "file-1"]}, "file_ids[1]"),
    ({"files": [{"file_id": "file-1"}, {"file_id": "file-1"}]}, "files[1].file_id"),
    ({"files": [{"file_id": 1}]}, "files[0].file_id"),
    ({"files": [{}]}, "files[0].file_id"),
    ({"files": [{"file_id": "f", "attributes": {str(n): 1 for n in range(17)}}]}, "files[0].attributes"),
]


def encoded(**members: Any) -> bytes:
    return msgspec.json.encode(members)


def test_a_store_may_be_created_without_a_body() -> None:
    assert parse_new_store(b"") == parse_new_store(b"{}")


def test_a_store_with_everything() -> None:
    body = encoded(
        name="n",
        description="d",
        file_ids=["file-1"],
        chunking_strategy=STATIC,
        expires_after={"anchor": "last_active_at", "days": 7},
        metadata={"a": "b"},
    )
    new = parse_new_store(body)
    assert (new.name, new.description, new.file_ids, new.metadata) == ("n", "d", ["file-1"], {"a": "b"})
    assert new.chunking_strategy == StaticChunking(Chunking(200, 100))
    assert new.expires_after is not None
    assert new.expires_after.days == 7


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"name": "x" * 257}, "name"),
        ({"name": 3}, "name"),
        ({"file_ids": ["f"] * 101}, "file_ids"),
        ({"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after.anchor"),
        ({"expires_after": {"anchor": "last_active_at", "days": 0}}, "expires_after.days"),
        ({"expires_after": {"anchor": "last_active_at"}}, "expires_after.days"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ({"chunking_strategy": STATIC}, "chunking_strategy"),
        ({"file_ids": ["f"], "chunking_strategy": {"type": "other"}}, "chunking_strategy.type"),
    ],
)
def test_a_bad_store_names_the_member(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_new_store(encoded(**members))
    assert raised.value.param == param


def test_a_change_tells_null_from_absent() -> None:
    change = parse_store_change(b'{"expires_after": null}')
    assert change.expires_after is None
    assert change.name is msgspec.UNSET


@pytest.mark.requirement("VECTOR-STORES/file-chunking")
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, DEFAULT_CHUNKING),
        ({"type": "auto"}, DEFAULT_CHUNKING),
        (STATIC, StaticChunking(Chunking(200, 100))),
    ],
)
def test_the_strategy_of_a_file(strategy: Any, expected: StaticChunking) -> None:
    assert parse_store_file(encoded(file_id="file-1", chunking_strategy=strategy)).chunking == expected


@pytest.mark.requirement("VECTOR-STORES/file-chunking")
@pytest.mark.parametrize(
    ("static", "param"),
    [
        ({"max_chunk_size_tokens": 99, "chunk_overlap_tokens": 0}, "max_chunk_size_tokens"),
        ({"max_chunk_size_tokens": 4097, "chunk_overlap_tokens": 0}, "max_chunk_size_tokens"),
        ({"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51}, "chunk_overlap_tokens"),
        ({"max_chunk_size_tokens": 100, "chunk_overlap_tokens": -1}, "chunk_overlap_tokens"),
    ],
)
def test_the_bounds_of_chunks(static: dict[str, int], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_store_file(encoded(file_id="file-1", chunking_strategy={"type": "static", "static": static}))
    assert raised.value.param == f"chunking_strategy.static.{param}"


@pytest.mark.requirement("VECTOR-STORES/file-attributes")
@pytest.mark.parametrize(
    "attributes",
    [
        {str(n): n for n in range(17)},
        {"k" * 65: 1},
        {"k": "v" * 513},
        {"k": None},
        {"k": []},
        {"k": {}},
        [],
        "x",
    ],
)
def test_attributes_that_are_none(attributes: Any) -> None:
    for parse, body in (
        (parse_attributes, encoded(attributes=attributes)),
        (parse_store_file, encoded(file_id="file-1", attributes=attributes)),
        (parse_file_batch, encoded(files=[{"file_id": "file-1", "attributes": attributes}])),
    ):
        with pytest.raises(InvalidRequest) as raised:
            parse(body)
        assert raised.value.param is not None
        assert "attributes" in raised.value.param


def test_sixteen_attributes_of_every_kind() -> None:
    given = {"text": "x" * 512, "number": 1.5, "flag": True, **{f"k{n}": n for n in range(13)}}
    assert parse_attributes(encoded(attributes=given)) == given
    assert parse_attributes(b'{"attributes": null}') == {}
    with pytest.raises(InvalidRequest):
        parse_attributes(b"{}")


def test_a_batch_of_ids_shares_attributes_and_strategy() -> None:
    batch = parse_file_batch(
        encoded(file_ids=["file-1", "file-2"], attributes={"a": 1}, chunking_strategy=STATIC)
    )
    assert [(file.file_id, file.attributes, file.chunking) for file in batch.files] == [
        (name, {"a": 1.0}, StaticChunking(Chunking(200, 100))) for name in ("file-1", "file-2")
    ]
    assert batch.param.format(1) == "file_ids[1]"


def test_a_batch_of_files_has_its_own() -> None:
    files = [{"file_id": "file-1", "attributes": {"a": "b"}}, {"file_id": "file-2"}]
    batch = parse_file_batch(encoded(files=files, attributes={"ignored": True}))
    assert [file.attributes for file in batch.files] == [{"a": "b"}, None]
    assert batch.param.format(1) == "files[1].file_id"


@pytest.mark.requirement("VECTOR-STORES/batch-files")
@pytest.mark.parametrize(("members", "param"), BAD_BATCHES)
def test_bad_batches(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_file_batch(encoded(**members))
    assert raised.value.param == param


@pytest.mark.requirement("VECTOR-STORES/batch-files")
def test_the_largest_batch() -> None:
    assert len(parse_file_batch(encoded(file_ids=[f"file-{n}" for n in range(2000)])).files) == 2000


def test_a_search_and_its_defaults() -> None:
    search = parse_search(b'{"query": "why?"}')
    assert (search.queries, search.max_num_results, search.filter, search.rewrite_query) == (
        ("why?",),
        10,
        None,
        False,
    )
    assert (search.ranking.ranker, search.ranking.score_threshold) == ("auto", 0.0)
    assert parse_search(b'{"query": ["a", "b"]}').queries == ("a", "b")


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": ["a", " "]}, "query"),
        ({"query": []}, "query"),
        ({"query": ["a"] * 33}, "query"),
        ({"query": 1}, "query"),
        ({"query": "a", "max_num_results": 0}, "max_num_results"),
        ({"query": "a", "max_num_results": 51}, "max_num_results"),
        ({"query": "a", "ranking_options": {"ranker": "best"}}, "ranking_options.ranker"),
        ({"query": "a", "ranking_options": {"score_threshold": 1.1}}, "ranking_options.score_threshold"),
        ({"query": "a", "filters": []}, "filters"),
        ({"query": "a", "filters": {"type": "and", "filters": [{"type": "eq"}]}}, "filters.filters[0].key"),
        ({"query": "a", "rewrite_query": "yes"}, "rewrite_query"),
    ],
)
def test_bad_searches(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_search(encoded(**members))
    assert raised.value.param == param


def test_members_come_in_the_order_of_the_api() -> None:
    assert msgspec.json.encode(FoundText(text="x")) == b'{"type":"text","text":"x"}'
    assert msgspec.json.encode(DEFAULT_CHUNKING) == (
        b'{"type":"static","static":{"max_chunk_size_tokens":800,"chunk_overlap_tokens":400}}'
    )
