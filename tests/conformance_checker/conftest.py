"""A correct server with an obedient model, and a proxy in front of it with one fault."""

from collections.abc import Generator

import pytest

from tests.cli.http_thread import serving
from tests.conformance_checker.faulty import Fault, FaultyProxy
from tests.conformance_checker.obedient import obedient
from tests.serving import run_server


@pytest.fixture(scope="session")
def good_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    folder = tmp_path_factory.mktemp("checked")
    with (
        serving(obedient()) as upstream,
        run_server(folder, "--upstream", upstream, "--store", "memory:", "--log-level", "warning") as served,
    ):
        yield served.base_url


@pytest.fixture(scope="session")
def _proxy(good_url: str) -> Generator[tuple[FaultyProxy, str], None, None]:
    proxy = FaultyProxy()
    proxy.upstream = good_url
    with serving(proxy.app()) as url:
        yield proxy, url


@pytest.fixture
def faulty(_proxy: tuple[FaultyProxy, str]) -> Generator[tuple[FaultyProxy, str], None, None]:
    proxy, url = _proxy
    yield proxy, url
    proxy.fault = Fault("none", frozenset())
