"""A creator that serves `file_search` on a scripted model, over scripted passages."""

from collections.abc import Sequence

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import Chunk
from tests.mcp import conftest as mcp_conftest
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages
from tests.service.responses.searches import MakeSearching

sdk_url = mcp_conftest.sdk_url


@pytest.fixture
def passages() -> ScriptedPassages:
    return ScriptedPassages()


@pytest.fixture
def searching(make_creator: MakeCreator, passages: ScriptedPassages) -> MakeSearching:
    """A creator whose model plays these turns."""

    def made(*turns: Sequence[Chunk], **fields: object) -> tuple[Creator, ScriptedBackend]:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        return make_creator(backend, served_tools=(FileSearch(passages),), **fields), backend

    return made
