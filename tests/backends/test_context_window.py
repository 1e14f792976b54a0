"""Context windows: where servers publish them, and how they are parsed."""

import json
from typing import Any

import pytest

from antiphon.backends.context_window import read_windows
from antiphon.backends.model_reports import value_of
from antiphon.backends.registry import ENDPOINTS, WindowSource

LISTED = WindowSource()
PS, SHOW = ENDPOINTS["ollama"].windows
PROPS = ENDPOINTS["llama.cpp"].windows[0]
STUDIO, OLD_STUDIO = ENDPOINTS["lm-studio"].windows

Answer = Any


def found(source: WindowSource, answer: Answer, model: str = "m") -> int | None:
    return value_of(model, read_windows(source, json.dumps(answer).encode()))


@pytest.mark.parametrize(
    ("source", "answer", "window"),
    [
        pytest.param(LISTED, {"data": [{"id": "m", "max_model_len": 32768}]}, 32768, id="vLLM"),
        pytest.param(LISTED, {"data": [{"id": "m", "context_window": 131072}]}, 131072, id="Groq"),
        pytest.param(LISTED, {"data": [{"id": "m", "max_context_length": 32000}]}, 32000, id="Mistral"),
        pytest.param(LISTED, [{"id": "m", "context_length": 8192}], 8192, id="Together"),
        pytest.param(
            LISTED,
            {"data": [{"id": "m", "context_length": 200, "top_provider": {"context_length": 100}}]},
            100,
            id="OpenRouter",
        ),
        pytest.param(
            LISTED,
            {"data": [{"id": "m", "context_length": 200, "top_provider": {"context_length": None}}]},
            200,
            id="OpenRouter without a provider",
        ),
        pytest.param(
            LISTED,
            {"data": [{"id": "m", "meta": {"n_ctx_train": 131072}}]},
            None,
            id="what it was trained for",
        ),
        pytest.param(PROPS, {"default_generation_settings": {"n_ctx": 4096}}, 4096, id="llama.cpp"),
        pytest.param(
            PS, {"models": [{"name": "m", "model": "m", "context_length": 4096}]}, 4096, id="Ollama"
        ),
        pytest.param(
            PS, {"models": [{"name": "m:latest", "context_length": 4096}]}, 4096, id="Ollama, no tag"
        ),
        pytest.param(
            PS, {"models": [{"name": "m:8b", "context_length": 4096}]}, None, id="Ollama, other tag"
        ),
        pytest.param(
            SHOW,
            {"parameters": 'stop  "<|im|>"\nnum_ctx                 16384\ntop_k 4'},
            16384,
            id="Modelfile",
        ),
        pytest.param(SHOW, {"model_info": {"llama.context_length": 131072}}, None, id="Ollama, not loaded"),
        pytest.param(SHOW, {"parameters": "xnum_ctx 5\nnum_ctx many"}, None, id="not a number"),
        pytest.param(
            STUDIO,
            {
                "models": [
                    {
                        "key": "m",
                        "max_context_length": 9000,
                        "loaded_instances": [
                            {"config": {"context_length": 8192}},
                            {"config": {"context_length": 4096}},
                        ],
                    }
                ]
            },
            4096,
            id="LM Studio, loaded twice",
        ),
        pytest.param(
            STUDIO,
            {"models": [{"key": "m", "max_context_length": 9000, "loaded_instances": None}]},
            None,
            id="LM Studio, not loaded",
        ),
        pytest.param(
            OLD_STUDIO,
            {"data": [{"id": "m", "loaded_context_length": 4096}]},
            4096,
            id="LM Studio before 0.4",
        ),
        pytest.param(LISTED, {"data": [{"id": "other", "max_model_len": 5}]}, None, id="another model"),
    ],
)
def test_the_windows_that_servers_publish(source: WindowSource, answer: Answer, window: int | None) -> None:
    assert found(source, answer) == window


def test_an_adapter_has_the_window_of_its_model() -> None:
    listed = {
        "data": [{"id": "base", "max_model_len": 4096}, {"id": "m", "parent": "base", "max_model_len": None}]
    }
    assert found(LISTED, listed) == 4096


@pytest.mark.parametrize("value", [0, -1, True, "4096", 4096.5, None, [], 2**50])
def test_invalid_token_counts_are_ignored(value: Answer) -> None:
    assert found(LISTED, {"data": [{"id": "m", "max_model_len": value}]}) is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff", b"3", b'"x"', b'{"data": 3}', b'{"data": ["m"]}', b"[[]]", b"[" * 5000]
)
def test_invalid_answers_are_ignored(body: bytes) -> None:
    for source in (LISTED, PROPS, PS, SHOW, STUDIO):
        assert value_of("m", read_windows(source, body)) is None
