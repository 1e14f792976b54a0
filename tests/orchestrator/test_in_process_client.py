"""Calling the service in this process. The contract of all clients is in `test_clients_contract`."""

import json

import pytest

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.errors import ResponsesCallFailed, Unavailable
from antiphon.orchestrator.client import InProcessResponsesClient, ResponsesClient
from antiphon.protocol.response import Response
from antiphon.settings import SealSettings, StoreSettings

SETTINGS = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))


class Draining(Antiphon):
    """A service that is shutting down."""

    async def retrieve(self, response_id: str) -> Response:
        raise Unavailable()


async def test_the_default_model_is_looked_up_once() -> None:
    backend = ScriptedBackend.saying("x")
    async with Antiphon(SETTINGS, routes=[Route("first", backend), Route("second", backend)]) as service:
        client: ResponsesClient = InProcessResponsesClient(service)
        assert await client.default_model() == "first"
        named = InProcessResponsesClient(service, model="second")
        assert await named.default_model() == "second"
    assert await client.default_model() == "first"


async def test_a_service_without_models_requires_a_model_name() -> None:
    backend = ScriptedBackend([[]], models=())
    async with Antiphon(SETTINGS, routes=[Route("*", backend)]) as service:
        with pytest.raises(ResponsesCallFailed, match="Name the model to use") as caught:
            await InProcessResponsesClient(service).default_model()
    assert caught.value.code == "model_not_found"


async def test_an_error_carries_the_services_retry_after() -> None:
    async with Draining(SETTINGS, routes=[Route("m", ScriptedBackend.saying("x"))]) as service:
        with pytest.raises(ResponsesCallFailed) as caught:
            await InProcessResponsesClient(service).retrieve("resp_1")
    failure = caught.value
    assert (failure.status, failure.code, failure.retry_after) == (503, "server_unavailable", 1.0)
    assert json.loads(failure.body)["error"]["message"] == failure.message
    assert isinstance(failure.__cause__, Unavailable)


async def test_the_method_decides_about_streaming_and_not_the_body() -> None:
    async with Antiphon(SETTINGS, routes=[Route("m", ScriptedBackend.saying("Hi"))]) as service:
        client = InProcessResponsesClient(service)
        body = {"model": "m", "input": "hi", "stream": True}
        assert json.loads(await client.create(body))["status"] == "completed"
        kinds = [event["type"] async for event in client.stream({**body, "stream": False})]
    assert kinds[-1] == "response.completed"
