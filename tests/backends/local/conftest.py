import os
from collections.abc import AsyncGenerator
from pathlib import Path

import platformdirs
import pytest
import pytest_asyncio

from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.local.weights import DEFAULT_MODEL
from tests.backends.local.fake_llama import FakeLlama, answering_with


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> FakeLlama:
    return FakeLlama(answering_with("Hello", " there")).install(monkeypatch)


@pytest.fixture
async def backend(llama: FakeLlama, tmp_path: Path) -> AsyncGenerator[LocalBackend, None]:
    """A backend on the fake engine."""
    assert llama
    weights = tmp_path / "tiny.gguf"
    weights.touch()
    backend = LocalBackend(str(weights), tmp_path, parallel=2, heartbeat=10.0)
    yield backend
    await backend.aclose()


def weights_folder() -> Path:
    """The folder that caches the real weights between runs."""
    configured = os.environ.get("ANTIPHON_TEST_WEIGHTS")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("antiphon")) / "models"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncGenerator[LocalBackend, None]:
    """The real default model, fetched on demand and loaded once."""
    backend = LocalBackend(
        DEFAULT_MODEL, weights_folder(), context=1024, parallel=2, threads=os.cpu_count() or 1
    )
    yield backend
    await backend.aclose()
