"""Where logs are stored: a directory, S3, GCS or Azure, by obstore."""

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.store import from_url

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

_TRY: Final = timedelta(seconds=20)
_PIECE: Final = 1 << 20
_AT_ONCE: Final = 1000


class Storage:
    """Logs by key: lines with their times as the kubelet gives them, compressed by gzip.

    Every call raises `obstore.exceptions.BaseError` or OSError if the storage is away, full, or refuses.

    Args:
        url: `file:///a/directory`, which is made where it is missing, `s3://bucket/prefix`, `gs://bucket/prefix` or
            `az://container/prefix`. Keys, endpoint and region come from the environment, as AWS_ENDPOINT_URL,
            AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME and the like.
    """

    def __init__(self, url: str) -> None:
        self._store: ObjectStore
        if url.startswith("file:"):
            self._store = from_url(url, mkdir=True, automatic_cleanup=True)
        else:
            # Whoever stores tries again, and knows for how long.
            client: ClientConfig = {"timeout": _TRY, "connect_timeout": _TRY, "allow_http": True}
            self._store = from_url(url, client_options=client, retry_config={"max_retries": 1, "retry_timeout": _TRY})

    async def put(self, key: str, lines: bytes) -> int:
        """Store a log, and return how many bytes it fills; one of the same key is replaced."""
        packed = await asyncio.to_thread(gzip.compress, lines, 6)
        await obstore.put_async(self._store, key, packed)
        return len(packed)

    async def get(self, key: str) -> bytes:
        """Return a log. It raises FileNotFoundError if there is none."""
        return b"".join([chunk async for chunk in self.chunks(key)])

    async def chunks(self, key: str) -> AsyncGenerator[bytes, None]:
        """Yield a log in pieces of at most 1 MiB, which may end within a line; see `get`."""
        unpacker = zlib.decompressobj(wbits=31)
        # Many who read at once, and slowly, take little memory, and hold up nobody.
        async for packed in (await obstore.get_async(self._store, key)).stream(min_chunk_size=_PIECE):
            rest = bytes(packed)
            while rest:
                yield await asyncio.to_thread(unpacker.decompress, rest, _PIECE)
                rest = unpacker.unconsumed_tail

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove logs; those that are gone already are no error."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            try:
                await obstore.delete_async(self._store, some)
            except FileNotFoundError:  # of a directory, which then keeps the others
                for key in some:
                    with contextlib.suppress(FileNotFoundError):
                        await obstore.delete_async(self._store, key)
