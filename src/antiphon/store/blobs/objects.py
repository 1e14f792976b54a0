"""The blob store in an object store: S3 and what is compatible with it, Google Cloud Storage, Azure."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, cast

from antiphon.errors import SettingsError, StoreUnavailable
from antiphon.extras import install_command
from antiphon.store.blobs.port import PIECE_BYTES

try:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url
except ImportError as missing:
    raise SettingsError(
        f"An object store as files.url needs its client: {install_command('object-store')}", param="files.url"
    ) from missing

SCHEMES = ("s3://", "gs://", "az://", "azure://", "abfs://", "abfss://", "s3a://")
PART_BYTES = 5 * 1024 * 1024
"""What is buffered of an object that is written; S3 takes no smaller parts."""
PARTS_AT_ONCE = 2
CLIENT_OPTIONS = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"}
)
"""The options of `files.options` that are those of the HTTP client; all others are the store's own."""
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


class _Writer(Protocol):
    async def write(self, buffer: bytes, /) -> int: ...
    async def close(self) -> None: ...


class ObjectBlobs:
    """See `BlobStore`. `store` is one of obstore's."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @classmethod
    def open(cls, url: str, options: Mapping[str, str]) -> "ObjectBlobs":
        """The object store of a URL such as ``s3://bucket/prefix``. Credentials come from the environment, as
        each provider's own tools read them."""
        if not url.startswith(SCHEMES):
            raise SettingsError(
                f"files.url: '{url}' is not supported. Use {', '.join(SCHEMES[:3])} or a folder."
            )
        open_store = cast("Callable[..., Any]", from_url)
        client = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
        config = {name: value for name, value in options.items() if name not in CLIENT_OPTIONS}
        try:
            return cls(open_store(url, config=config, client_options=client, retry_config=_RETRIES))
        except (BaseError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise SettingsError(f"files.url does not name an object store: {reason}.") from None

    async def create(self, key: str) -> "ObjectWriter":
        """Begin an object."""
        writer = obstore.open_writer_async(
            self._store, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )
        return ObjectWriter(self._store, key, cast("_Writer", writer))

    async def read(self, key: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """The bytes [start, end) of an object, in one request."""
        if start >= end:
            return
        try:
            found = await obstore.get_async(self._store, key, options={"range": (start, end)})
            async for piece in found.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)
                start += len(piece)
        except (BaseError, OSError) as error:
            raise _unavailable(error) from error
        if start < end:
            raise StoreUnavailable("The content of this file is shorter than it was.")

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        for key in keys:
            try:
                await obstore.delete_async(self._store, key)
            except FileNotFoundError:
                pass
            except (BaseError, OSError) as error:
                raise _unavailable(error) from error


class ObjectWriter:
    """See `BlobWriter`."""

    def __init__(self, store: Any, key: str, writer: _Writer) -> None:
        self._store = store
        self._key = key
        self._writer = writer

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces."""
        try:
            for piece in pieces:
                await self._writer.write(piece)
        except (BaseError, OSError) as error:
            raise _unavailable(error) from error

    async def commit(self) -> None:
        """Complete the object."""
        try:
            await self._writer.close()
        except (BaseError, OSError) as error:
            raise _unavailable(error) from error

    async def abort(self) -> None:
        """Complete the object and delete it: parts of one that is never completed would stay and cost."""
        with suppress(BaseError, OSError):  # upkeep deletes the object
            await self._writer.close()
            await obstore.delete_async(self._store, self._key)


def _unavailable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"The object store cannot be used right now ({type(error).__name__}). Try again in a moment."
    )
