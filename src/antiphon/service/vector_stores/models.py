"""The embedding model of a vector store: it must be served, and give vectors like those that are stored."""

from antiphon.embeddings.base import Embedder
from antiphon.errors import InvalidRequest, ModelNotFound
from antiphon.service.embeddings import Embeddings

NOT_SERVED = "embedding_model_not_served"
OTHER_DIMENSIONS = "embedding_model_mismatch"


def model_of(embeddings: Embeddings, model: str, store_id: str) -> Embedder:
    """The model of a store; raises `InvalidRequest` if it is not served."""
    try:
        return embeddings.find(model)
    except ModelNotFound:
        message = (
            f"Vector store '{store_id}' has vectors of the embedding model '{model}', which this server does "
            f"not serve. {_served(embeddings)}"
        )
        raise _mismatch(message, store_id, NOT_SERVED) from None


def check_dimensions(found: int, expected: int, model: str, store_id: str) -> None:
    """Raise `InvalidRequest` if a vector cannot be compared with those of a store; 0: there are none."""
    if expected and found != expected:
        message = (
            f"The embedding model '{model}' gives vectors of {found} dimensions now, and those of vector "
            f"store '{store_id}' have {expected}: it is another model of the same name."
        )
        raise _mismatch(message, store_id, OTHER_DIMENSIONS)


def _mismatch(message: str, store_id: str, code: str) -> InvalidRequest:
    advice = f"To move the store to the current model: `antiphon vector-stores reindex {store_id}`."
    return InvalidRequest(f"{message} {advice}", param="vector_store_id", code=code)


def _served(embeddings: Embeddings) -> str:
    names = ", ".join(f"'{info.id}'" for info in embeddings.models())
    return f"Served: {names}." if names else "It serves none."
