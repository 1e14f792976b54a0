"""Everything that the server calls, in one value; the composition root puts it together."""

from dataclasses import dataclass, field

from antiphon.service.background import Background
from antiphon.service.containers.api import ContainersApi
from antiphon.service.conversations import Conversations
from antiphon.service.embeddings import Embeddings
from antiphon.service.files.files import Files
from antiphon.service.files.uploads import Uploads
from antiphon.service.responses.compaction import Compactor
from antiphon.service.responses.create import Creator
from antiphon.service.responses.input_tokens import TokenCount
from antiphon.service.routing.router import Router
from antiphon.service.stored import StoredResponses
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.store.ports import Stores
from antiphon.turn.sealing import SealKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The service as its parts."""

    creator: Creator
    compactor: Compactor
    tokens: TokenCount
    router: Router
    seal_key: SealKey
    store: Stores
    background: Background
    stored: StoredResponses
    conversations: Conversations
    files: Files
    uploads: Uploads
    vector_stores: VectorStoreService
    containers: ContainersApi = field(default_factory=ContainersApi)
    embeddings: Embeddings = field(default_factory=Embeddings)
    ignored_tools: frozenset[str] = frozenset()
