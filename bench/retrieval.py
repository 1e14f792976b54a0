"""The quality of retrieval: nDCG@10 by words, by vectors, and by both, with the bundled embedding model.

    python -m bench.retrieval FOLDER...

A folder holds a collection: `documents.jsonl` and `queries.jsonl` with ``{"id", "text"}`` per line, and
`qrels.tsv` with query, document and grade. Beside them the documentation of this project is measured: each
section is to be found by its heading, which is not in its text. Vectors are cached in `bench/out`.
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.embeddings.base import Embedder, Vector
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunking import cut
from antiphon.retrieval.index import ChunkIndex
from antiphon.retrieval.scope import Scope
from antiphon.retrieval.similarity import SimilarityIndex
from antiphon.retrieval.vector_cache import VectorCache
from antiphon.settings import Settings
from antiphon.wiring.embeddings import make_local_embedder

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "bench" / "out" / "vectors.db"
DEPTH = 10
BATCH_TEXTS = 64

Grades = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Collection:
    """Texts and questions by id, and how relevant which text is to which question."""

    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    grades: Grades


def read_collection(folder: Path) -> Collection:
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split("\t")
        grades.setdefault(query, {})[document] = int(grade)
    return Collection(
        folder.name, _texts(folder / "documents.jsonl"), _texts(folder / "queries.jsonl"), grades
    )


def _texts(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {row["id"]: row["text"] for row in map(json.loads, lines)}


def own_documentation() -> Collection:
    """The sections of the documentation, and their headings as questions."""
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for chunk in cut(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")):
            lines = chunk.text.splitlines()
            if lines[0].startswith("#") and len(lines) > 2 and len(lines[0].split()) > 2:
                documents[chunk.id] = "\n".join(lines[1:])
                queries[chunk.id] = lines[0].lstrip("# ")
    return Collection("own documentation", documents, queries, {name: {name: 1} for name in queries})


async def embed(embedder: Embedder, cache: VectorCache, texts: Mapping[str, str]) -> dict[str, Vector]:
    found = cache.get(embedder.model, texts)
    missing = {key: text for key, text in texts.items() if key not in found}
    keys = list(missing)
    for start in range(0, len(keys), BATCH_TEXTS):
        batch = [missing[key] for key in keys[start : start + BATCH_TEXTS]]
        vectors = (await embedder.embed(batch)).vectors
        cache.put(embedder.model, batch, vectors)
        found |= dict(zip(keys[start:], vectors, strict=False))
        print(f"  embedded {min(start + BATCH_TEXTS, len(keys))} of {len(keys)}", file=sys.stderr)
    return found


def ndcg(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    best = _gain(sorted(grades.values(), reverse=True)[:DEPTH])
    return _gain([grades.get(name, 0) for name in ranked[:DEPTH]]) / best if best else 0.0


def _gain(grades: Sequence[int]) -> float:
    return sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))


async def measure(
    collection: Collection, embedder: Embedder, cache: VectorCache
) -> Iterator[tuple[str, float, float]]:
    """Method, nDCG@10 and milliseconds per question."""
    documents = await embed(embedder, cache, collection.documents)
    queries = await embed(embedder, cache, collection.queries)
    words, vectors = ChunkIndex(), SimilarityIndex()
    words.replace(
        (name, [RagChunk(name, "text", 1, 1, "plaintext", text)])
        for name, text in collection.documents.items()
    )
    vectors.change(documents)

    def by_words(query: str) -> list[str]:
        return [chunk.id for chunk in words.search(collection.queries[query], Scope(), DEPTH)]

    def by_vectors(query: str) -> list[str]:
        found = vectors.similarities(queries[query])
        return sorted(found, key=lambda name: -found[name])[:DEPTH]

    def by_both(query: str) -> list[str]:
        similarities = vectors.similarities(queries[query])
        return [chunk.id for chunk in words.search(collection.queries[query], Scope(), DEPTH, similarities)]

    methods = {"BM25": by_words, "vectors": by_vectors, "hybrid": by_both}
    return ((name, *_score(collection, rank)) for name, rank in methods.items())


def _score(collection: Collection, rank: Callable[[str], list[str]]) -> tuple[float, float]:
    asked = [query for query in collection.queries if query in collection.grades]
    began = time.perf_counter()
    total = sum(ndcg(rank(query), collection.grades[query]) for query in asked)
    return total / len(asked), (time.perf_counter() - began) / len(asked) * 1000


async def main(folders: Sequence[str]) -> None:
    cache, embedder = VectorCache(CACHE), make_local_embedder(Settings())
    cache.open()
    print(
        "| collection | texts | questions | method | nDCG@10 | ms per question |\n|---|---|---|---|---|---|"
    )
    for collection in (*map(read_collection, map(Path, folders)), own_documentation()):
        size = f"{len(collection.documents)} | {len(collection.queries)}"
        for method, quality, milliseconds in await measure(collection, embedder, cache):
            print(
                f"| {collection.name} | {size} | {method} | {quality:.3f} | {milliseconds:.1f} |", flush=True
            )
    cache.close()
    await embedder.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
