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
    """Compares the hashes that were found as the files came, then runs the block while another thread finds the rest.

    Those are compared at the block's end, and where it fails with a FarmError too, since damaged bytes are the better
    reason for that. FarmError names the first chunk whose hash is not the one that its writer noted.
    """
    for chunk in chunks:
        if chunk.sha256 is not None:
            _check(chunk, chunk.sha256)
    with ThreadPoolExecutor(1, "chunk-hash") as pool:
        hashing = [(chunk, pool.submit(file_sha256, chunk.path)) for chunk in chunks if chunk.sha256 is None]
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


def _compare(hashing: Sequence[tuple[ChunkFile, Future[str]]]) -> None:
    for chunk, found in hashing:
        try:
            sha256 = found.result()
        except OSError as error:
            raise damaged(chunk.facts, f"Its file cannot be read: {type(error).__name__}.") from error
        _check(chunk, sha256)


def _check(chunk: ChunkFile, sha256: str) -> None:
    if sha256 != chunk.facts.sha256:
        raise damaged(chunk.facts, "Its file's sha256 is not the one that its writer noted.")
