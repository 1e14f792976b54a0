"""Everything that the doors of the server call, in one object."""

from dataclasses import dataclass

from antiphon.service.background import Background
from antiphon.service.conversations import Conversations
from antiphon.service.create import Creator
from antiphon.service.input_tokens import TokenCount
from antiphon.service.stored import StoredResponses
from antiphon.store.ports import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The service as its parts; the composition root puts them together."""

    creator: Creator
    store: Stores
    background: Background
    stored: StoredResponses
    conversations: Conversations
    tokens: TokenCount


def assemble(creator: Creator, background: Background) -> Services:
    """The services around a creator: they share its store, its ids and its models."""
    return Services(
        creator=creator,
        store=creator.store,
        background=background,
        stored=StoredResponses(creator.store.responses, background),
        conversations=Conversations(creator.store.conversations, creator.ids, creator.clock),
        tokens=TokenCount(
            router=creator.router,
            store=creator.store,
            sealer=creator.sealer,
            inherit_tools=creator.inherit_tools,
        ),
    )
