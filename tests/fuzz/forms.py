"""Forms with files, made from JSON bodies, so that bodies of both kinds are mutated in the same way."""

from typing import Any, cast

BOUNDARY = "fuzz-boundary"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def render_form(body: Any) -> bytes:
    """The form of a body: an object with a `filename` becomes a file, other members become fields."""
    members = cast("dict[str, Any]", body) if isinstance(body, dict) else {"": body}
    return b"".join(_part(name, value) for name, value in members.items()) + f"--{BOUNDARY}--\r\n".encode()


def _part(name: str, value: Any) -> bytes:
    disposition, content = f'form-data; name="{name}"', value
    if isinstance(value, dict) and "filename" in value:
        file = cast("dict[str, Any]", value)
        disposition += f'; filename="{file["filename"]}"'
        content = file.get("content", "")
    head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n"
    return f"{head}{content}\r\n".encode("utf-8", "surrogatepass")
