"""Images, documents and other message content."""

import base64
from typing import Any

import pytest

from antiphon.backends.files import FileNotTaken
from antiphon.errors import InvalidRequest, Unsupported
from tests.backends.anthropic_messages.building import CALL, OUTPUT, USER, build, messages, refused

PDF = "data:application/pdf;base64,JVBERi0="
TEXT = base64.b64encode("Grüße".encode()).decode()


def part(**members: Any) -> dict[str, Any]:
    ((_, (block,)),) = messages({"role": "user", "content": [members]})
    return block


@pytest.mark.parametrize(
    ("url", "source"),
    [
        (
            "data:image/png;base64,iVBO",
            {"type": "base64", "media_type": "image/png", "data": "iVBO"},
        ),
        (
            "data:IMAGE/JPEG;name=a;base64,x",
            {"type": "base64", "media_type": "image/jpeg", "data": "x"},
        ),
        ("https://example.com/a.png", {"type": "url", "url": "https://example.com/a.png"}),
    ],
)
def test_images(url: str, source: dict[str, Any]) -> None:
    assert part(type="input_image", image_url=url) == {"type": "image", "source": source}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (
            {"file_data": PDF, "filename": "a.pdf"},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a.pdf",
            },
        ),
        (
            {"file_data": "JVBERi0="},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            },
        ),
        (
            {"file_data": TEXT, "filename": "a.txt"},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"},
                "title": "a.txt",
            },
        ),
        (
            {"file_data": "data:application/json;base64,e30="},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "{}"}},
        ),
        (
            {"file_data": "data:image/webp;base64,x"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "x"}},
        ),
        (
            {"file_url": "https://example.com/a.pdf"},
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        ),
    ],
)
def test_files(members: dict[str, Any], expected: dict[str, Any]) -> None:
    assert part(type="input_file", **members) == expected


@pytest.mark.parametrize(
    ("members", "kind", "param"),
    [
        ({"type": "input_image", "image_url": "http://a/b.png"}, InvalidRequest, "image_url"),
        ({"type": "input_image", "image_url": "data:image/png,x"}, InvalidRequest, "image_url"),
        ({"type": "input_image", "image_url": "data:image/tiff;base64,x"}, Unsupported, "image_url"),
        ({"type": "input_image", "file_id": "file_1"}, FileNotTaken, "file_id"),
        ({"type": "input_file", "filename": "a.pdf"}, InvalidRequest, "file_data"),
        ({"type": "input_file", "file_id": "file_1"}, FileNotTaken, "file_id"),
        ({"type": "input_file", "file_url": "file:///etc/passwd"}, FileNotTaken, "file_url"),
        ({"type": "input_file", "file_data": "data:application/zip;base64,x"}, FileNotTaken, "file_data"),
        ({"type": "input_file", "file_data": "data:text/plain;base64,/w=="}, InvalidRequest, "file_data"),
        ({"type": "input_file", "file_data": "data:text/plain;base64,?"}, InvalidRequest, "file_data"),
    ],
)
def test_unsupported_content_is_rejected_with_its_path(
    members: dict[str, Any], kind: type[InvalidRequest], param: str
) -> None:
    error = refused(input=[{"role": "user", "content": [members]}])
    assert type(error) is kind
    assert error.param == f"input[0].content[0].{param}"


def test_audio_is_rejected() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    error = refused(input=[{"role": "user", "content": [sound]}])
    assert isinstance(error, Unsupported)
    assert error.param == "input[0].content[0]"


def test_an_image_detail_other_than_the_default_is_reported() -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    for detail, noted in (("high", True), ("auto", False)):
        payload = build(input=[{"role": "user", "content": [{**image, "detail": detail}]}])
        assert bool(payload.downgrades) == noted


def test_images_of_the_assistant_are_not_sent() -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    error = refused(input=[USER, {"role": "system", "content": [image]}, USER])
    assert error.param == "input[1].content[0]"


def test_a_refusal_is_replayed_as_text() -> None:
    refusal_message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}],
    }
    assert messages(USER, refusal_message, USER)[1] == ("assistant", [{"type": "text", "text": "No."}])


def test_files_in_a_tool_output_are_sent_within_it() -> None:
    output = {
        **OUTPUT,
        "output": [{"type": "input_text", "text": "x"}, {"type": "input_file", "file_data": PDF}],
    }
    _, (result,) = messages(USER, CALL, output)[-1]
    assert [block["type"] for block in result["content"]] == ["text", "document"]
