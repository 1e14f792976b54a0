"""Images on the command line."""

from pathlib import Path

import pytest

from antiphon.cli.ask.question import MAX_IMAGE_BYTES, make_input
from antiphon.cli.failure import WrongUsage


def sent(image: str) -> str:
    [message] = make_input("?", [image])
    assert isinstance(message, dict)
    url = message["content"][1]["image_url"]
    assert isinstance(url, str)
    return url


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_the_media_type_is_detected_from_the_content(content: bytes, media_type: str) -> None:
    Path("picture").write_bytes(content)
    assert sent("picture").startswith(f"data:{media_type};base64,")


@pytest.mark.parametrize("url", ["https://example.org/a.png", "data:image/png;base64,AAAA"])
def test_a_url_is_sent_as_it_is(url: str) -> None:
    assert sent(url) == url


def test_an_invalid_image_is_rejected() -> None:
    Path("notes.png").write_text("not a picture")
    with pytest.raises(WrongUsage, match="not a PNG, JPEG, GIF or WebP"):
        sent("notes.png")


def test_an_image_that_is_too_large_is_rejected_unread() -> None:
    with Path("large.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(MAX_IMAGE_BYTES + 1)
    with pytest.raises(WrongUsage, match="larger than 20 MB"):
        sent("large.png")


@pytest.mark.parametrize("image", ["missing.png", "."])
def test_an_image_that_cannot_be_read_is_rejected(image: str) -> None:
    with pytest.raises(WrongUsage, match="cannot read"):
        sent(image)
