"""``/v1/uploads``: files in parts."""

from typing import ClassVar

import msgspec

from antiphon.caller import WRITE
from antiphon.protocol.files import PartObject, UploadObject, parse_complete, parse_upload
from antiphon.protocol.ids import UPLOAD_ID
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.multipart import FormReader, MultipartForm
from antiphon.server.routing import Route
from antiphon.service.files.files import file_object
from antiphon.service.files.uploads import MAX_PART_BYTES, Uploads
from antiphon.store.files import StoredFile, Upload


class UploadRoutes:
    """The routes of `/v1/uploads`."""

    def __init__(self, uploads: Uploads, bodies: BodyReader, forms: FormReader) -> None:
        self._uploads = uploads
        self._bodies = bodies
        self._forms = forms

    async def create(self, exchange: Exchange) -> None:
        """A new upload."""
        new = parse_upload(await self._bodies.read(exchange), self._uploads.max_bytes)
        await _send(exchange, await self._uploads.create(exchange.caller, new))

    async def add_part(self, exchange: Exchange, upload_id: str) -> None:
        """Store a part while it arrives."""
        with self._forms.receive(exchange, MAX_PART_BYTES) as pieces:
            head = exchange.head
            form = MultipartForm(pieces, head.content_type, "data", int(head.content_length or 0))
            part = await self._uploads.add_part(exchange.caller, upload_id, form)
        wire = PartObject(id=part.id, created_at=part.created_at, upload_id=upload_id)
        await exchange.send_json(msgspec.json.encode(wire))

    async def complete(self, exchange: Exchange, upload_id: str) -> None:
        """Join the parts to a file."""
        wanted = parse_complete(await self._bodies.read(exchange))
        with self._bodies.lifetimes.lease():
            upload, file = await self._uploads.complete(exchange.caller, upload_id, wanted)
        await _send(exchange, upload, file)

    async def cancel(self, exchange: Exchange, upload_id: str) -> None:
        """Cancel an upload."""
        await _send(exchange, await self._uploads.cancel(exchange.caller, upload_id))

    _ONE = "/v1/uploads/{id}"
    ROUTES: ClassVar = (
        Route("POST /v1/uploads", create, WRITE, stateful=True),
        Route(f"POST {_ONE}/parts", add_part, WRITE, stateful=True, id_form=UPLOAD_ID),
        Route(f"POST {_ONE}/complete", complete, WRITE, stateful=True, id_form=UPLOAD_ID),
        Route(f"POST {_ONE}/cancel", cancel, WRITE, stateful=True, id_form=UPLOAD_ID),
    )


async def _send(exchange: Exchange, upload: Upload, file: StoredFile | None = None) -> None:
    wire = UploadObject(
        id=upload.id,
        bytes=upload.bytes,
        created_at=upload.created_at,
        expires_at=upload.expires_at,
        filename=upload.filename,
        purpose=upload.purpose,
        status=upload.status,
        file=None if file is None else file_object(file),
    )
    await exchange.send_json(msgspec.json.encode(wire))
