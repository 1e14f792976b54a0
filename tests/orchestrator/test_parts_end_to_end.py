"""PDF files, from the provider through our service to a chat-completions server."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from antiphon import Antiphon, Settings
from antiphon.orchestrator import parts
from antiphon.orchestrator.client import InProcessResponsesClient
from antiphon.orchestrator.provider import Provider
from antiphon.settings import SealSettings, StoreSettings, UpstreamSettings
from tests.orchestrator.test_parts import content_of, make_pdf
from tests.upstream import Upstream, run_upstream

PDF = make_pdf("The tap was fixed.")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with run_upstream() as server:
        yield server


def service(upstream: Upstream, kind: str) -> AbstractAsyncContextManager[Antiphon]:
    row = UpstreamSettings(kind=kind, base_url=upstream.url, api_key="key")
    store = StoreSettings(url="memory:")
    return Antiphon(Settings(seal=SealSettings(key="test"), store=store, upstreams=(row,)))


@pytest.mark.requirement("SEED-004/why-multi-modal")
@pytest.mark.parametrize("kind", ["openai", "openrouter"])
async def test_a_server_that_takes_files_gets_the_pdf(upstream: Upstream, kind: str) -> None:
    async with service(upstream, kind) as antiphon:
        provider = Provider(InProcessResponsesClient(antiphon), model="echo")
        message = [parts.text("What was done?"), parts.pdf(PDF)]
        assert await provider.generate_response("Be brief.", message)
        await provider.generate_responses_turn(None, message, None, None)
    for request in upstream.requests:
        question, sent = request["messages"][-1]["content"]
        assert question == {"type": "text", "text": "What was done?"}
        assert (sent["type"], sent["file"]["filename"]) == ("file", "document.pdf")
        assert content_of(sent["file"]["file_data"], "application/pdf") == PDF


@pytest.mark.requirement("SEED-004/why-multi-modal")
async def test_a_server_that_takes_no_files_gets_the_text_of_the_pdf(upstream: Upstream) -> None:
    async with service(upstream, "plain") as antiphon:
        provider = Provider(InProcessResponsesClient(antiphon), model="echo")
        converted = await provider.generate_response("", [parts.text("Done?"), parts.pdf(PDF)])
        answer = await provider.generate_response("", [parts.text("Done?"), parts.pdf_text(PDF)])
    assert (
        converted == "You said: Done?\n[FILE document.pdf]\n\n[page 1]\nThe tap was fixed.\n\n[END OF FILE]"
    )
    assert answer == "You said: Done?\n[PAGE 1]\nThe tap was fixed."
