"""The chunk files' hashes, found beside the work that reads the files and compared before its result counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from farm.errors import FarmError
from farm.media.writer import file_sha256
from farm.merger.join import ChunkFile, damaged


@contextmanager
def hashes_right(chunks: Sequence[ChunkFile]) -> Iterator[None]:
    """Runs the block while another thread hashes the files whose hash was not found as they came.

    At the block's end, and where it fails with a FarmError too, since damaged bytes are the better reason for that,
    FarmError names the first chunk whose hash is not the one that its writer noted.
    """
    with ThreadPoolExecutor(1, "chunk-hash") as pool:
        hashing = [(chunk, pool.submit(_sha256, chunk)) for chunk in chunks]
        try:
            yield
        except FarmError:
            _compare(hashing)
            raise
        else:
            _compare(hashing)
        finally:
            for _, found in hashing:
                found.cancel()


def _sha256(chunk: ChunkFile) -> str:
    return chunk.sha256 or file_sha256(chunk.path)


def _compare(hashing: Sequence[tuple[ChunkFile, Future[str]]]) -> None:
    for chunk, found in hashing:
        try:
            right = found.result() == chunk.facts.sha256
        except OSError as error:
            raise damaged(chunk.facts, f"Its file cannot be read: {type(error).__name__}.") from error
        if not right:
            raise damaged(chunk.facts, "Its file's sha256 is not the one that its writer noted.")
