"""Images, files, audio and other message content."""

import base64
from typing import Any

import pytest

from antiphon.backends.files import FileNotTaken
from antiphon.backends.gemini.content import parts_of
from antiphon.errors import InvalidRequest
from antiphon.protocol.content import InputAudio
from antiphon.protocol.downgrade import Downgrades
from tests.backends.gemini.building import (
    CALL,
    NEW,
    OUTPUT,
    USER,
    build,
    contents,
    refused,
    text,
)

PNG = "data:image/png;base64,iVBO"
TEXT = base64.b64encode("Grüße".encode()).decode()


def part(**members: Any) -> dict[str, Any]:
    ((_, (found,)),) = contents({"role": "user", "content": [members]})
    return found


def inline(media: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media, "data": data}}


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (PNG, inline("image/png", "iVBO")),
        ("data:IMAGE/JPG;name=a;base64,x", inline("image/jpeg", "x")),
        (
            "https://example.com/a.png?size=1",
            {"fileData": {"fileUri": "https://example.com/a.png?size=1", "mimeType": "image/png"}},
        ),
        ("https://example.com/a", {"fileData": {"fileUri": "https://example.com/a"}}),
    ],
)
def test_images(url: str, sent: dict[str, Any]) -> None:
    assert part(type="input_image", image_url=url) == sent


@pytest.mark.parametrize(
    ("members", "sent"),
    [
        ({"file_data": "data:application/pdf;base64,JVBERi0="}, inline("application/pdf", "JVBERi0=")),
        ({"file_data": "JVBERi0="}, inline("application/pdf", "JVBERi0=")),
        ({"file_data": TEXT, "filename": "a.md"}, inline("text/plain", TEXT)),
        ({"file_data": "data:application/json;base64,e30="}, inline("text/plain", "e30=")),
        ({"file_data": "data:video/mp4;base64,x"}, inline("video/mp4", "x")),
        (
            {"file_url": "https://example.com/a.pdf"},
            {"fileData": {"fileUri": "https://example.com/a.pdf", "mimeType": "application/pdf"}},
        ),
    ],
)
def test_files(members: dict[str, Any], sent: dict[str, Any]) -> None:
    assert part(type="input_file", **members) == sent


def test_sound() -> None:
    wave = InputAudio(input_audio={"data": "x", "format": "wav"})
    assert parts_of([wave], "p", Downgrades()) == [inline("audio/wav", "x")]
    for broken in ({}, {"data": "x"}, {"data": 1, "format": "wav"}):
        with pytest.raises(InvalidRequest) as caught:
            parts_of([InputAudio(input_audio=broken)], "p", Downgrades())
        assert caught.value.param == "p[0].input_audio"


@pytest.mark.parametrize(
    ("members", "kind", "param"),
    [
        ({"type": "input_image", "image_url": "http://a/b.png"}, InvalidRequest, "image_url"),
        ({"type": "input_image", "image_url": "gs://bucket/b.png"}, InvalidRequest, "image_url"),
        ({"type": "input_image", "image_url": "data:image/png,x"}, InvalidRequest, "image_url"),
        ({"type": "input_image", "file_id": "file_1"}, FileNotTaken, "file_id"),
        ({"type": "input_file", "file_id": "file_1"}, FileNotTaken, "file_id"),
        ({"type": "input_file", "file_url": "file:///etc/passwd"}, FileNotTaken, "file_url"),
        ({"type": "input_file", "file_data": "x", "filename": "a.docx"}, FileNotTaken, "file_data"),
        ({"type": "input_file", "file_data": "data:text/plain,x"}, InvalidRequest, "file_data"),
    ],
)
def test_unsupported_content_is_rejected_with_its_path(
    members: dict[str, Any], kind: type[InvalidRequest], param: str
) -> None:
    error = refused(input=[{"role": "user", "content": [members]}])
    assert type(error) is kind
    assert error.param == f"input[0].content[0].{param}"


def test_omitted_members_of_a_part_are_reported() -> None:
    image = {"type": "input_image", "image_url": PNG}
    for more, noted in (({"detail": "high"}, 1), ({"detail": "auto"}, 0)):
        payload = build(input=[{"role": "user", "content": [{**image, **more}]}])
        assert len(payload.downgrades) == noted
    marked = {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"ttl": "5m"}}
    assert "breakpoints" in build(input=[{"role": "user", "content": [marked]}]).downgrades[0].render()


def test_images_of_the_assistant_are_not_sent() -> None:
    image = {"type": "input_image", "image_url": PNG}
    error = refused(input=[USER, {"role": "system", "content": [image]}, USER])
    assert error.param == "input[1].content[0]"


def test_a_refusal_is_replayed_as_text() -> None:
    refusal_message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}],
    }
    assert contents(USER, refusal_message, USER)[1] == ("model", [text("No.")])


def test_images_in_a_tool_output_are_sent_within_it_where_supported() -> None:
    parts = [
        {"type": "input_text", "text": "x"},
        {"type": "input_text", "text": "y"},
        {"type": "input_image", "image_url": PNG},
    ]
    output = {**OUTPUT, "output": parts}
    (_, (response_part,)) = contents(USER, CALL, output, model=NEW)[-1]
    response = response_part["functionResponse"]
    assert response["response"] == {"output": "x\ny"}
    assert response["parts"] == [inline("image/png", "iVBO")]
    payload = build(input=[USER, CALL, output])
    response, image = payload.body["contents"][-1]["parts"]
    assert "parts" not in response["functionResponse"]
    assert image == inline("image/png", "iVBO")
    assert "after it" in payload.downgrades[0].render()


def test_of_two_outputs_the_last_one_counts() -> None:
    first = {**OUTPUT, "output": [{"type": "input_image", "image_url": PNG}]}
    (_, (response,)) = contents(USER, CALL, first, OUTPUT)[-1]
    assert response["functionResponse"]["response"] == {"output": "seen"}


def test_a_url_in_a_tool_output_is_sent_after_it() -> None:
    output = {**OUTPUT, "output": [{"type": "input_image", "image_url": "https://example.com/a.png"}]}
    (_, (response, link)) = contents(USER, CALL, output, model=NEW)[-1]
    assert response["functionResponse"]["response"] == {"output": ""}
    assert "fileData" in link
