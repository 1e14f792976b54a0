"""Reranking: a cross-encoder reads the question and a text together, and scores how well they fit."""

import math
from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from antiphon.errors import BackendBroken
from antiphon.http.client import HttpClient
from antiphon.http.exchange import fetch

PATH = "rerank"


class Reranker(Protocol):
    """A model that ranks texts. It is slow, so it is given the best ones of another ranking only."""

    async def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, from 0 to 1. Raises `BackendError`."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


class _Request(Struct, frozen=True):
    model: str
    query: str
    documents: Sequence[str]


class _Result(Struct, frozen=True):
    index: int
    relevance_score: float


class _Answer(Struct, frozen=True):
    results: list[_Result]


_decode = msgspec.json.Decoder(_Answer).decode


class UpstreamReranker:
    """A model of a server that has ``/v1/rerank``, such as vLLM, llama.cpp, Jina and Cohere."""

    def __init__(self, client: HttpClient, model: str) -> None:
        self._client = client
        self._model = model

    async def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Ask the server, once for all texts."""
        client = self._client
        request = client.request("POST", PATH, msgspec.json.encode(_Request(self._model, query, texts)))
        body = await fetch(client, request, client.target.deadlines.answer, retries=client.target.retries)
        try:
            found = {result.index: result.relevance_score for result in _decode(body).results}
        except msgspec.DecodeError as error:
            raise self._broken(str(error)) from None
        if set(found) != set(range(len(texts))):
            raise self._broken(f"scores of {len(found)} texts, and not of {len(texts)}")
        return _as_shares([found[place] for place in range(len(texts))])

    async def aclose(self) -> None:
        self._client.close()

    def _broken(self, why: str) -> BackendBroken:
        return BackendBroken(f"The upstream '{self._client.target.name}' did not answer with scores: {why}.")


def _as_shares(scores: Sequence[float]) -> Sequence[float]:
    """The scores from 0 to 1. Some servers send what the model computes, which has no bounds."""
    if all(0 <= score <= 1 for score in scores):
        return scores
    return [1 / (1 + math.exp(-max(-60.0, min(60.0, score)))) for score in scores]
