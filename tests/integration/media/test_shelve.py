"""Segments go into the store while the next ones are cut: in order, all of them, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.chunker.cut import PlateCutter
from farm.chunker.shelve import Keys, stored_chunks
from farm.errors import InfrastructureError
from farm.media.probe import probe
from farm.media.timeline import Timeline
from farm.store.memory import MemoryStore
from tests.media_factory import MediaFactory


def keys_of(number: int) -> Keys:
    return Keys(f"segments/{number}", f"timelines/{number}")


def cutter(media: MediaFactory, folder: Path) -> PlateCutter:
    path = media.make("h264_closed.mp4")
    return PlateCutter(path, probe(path), folder, target_seconds=0.5)


def test_every_chunk_is_in_the_store_when_it_is_handed_out(media: MediaFactory, tmp_path: Path) -> None:
    cut, store = cutter(media, tmp_path), MemoryStore()
    found = []
    for stored in stored_chunks(cut, store, keys_of, before=2, after=1):
        head = store.head(stored.keys.segment)
        assert head is not None
        assert head.sha256 == stored.segment.sha256
        part = Timeline.from_bytes(store.get_bytes(stored.keys.timeline))
        first, last = stored.chunk.range.first, stored.chunk.range.last
        assert part.pts[first:last].tolist() == stored.part.pts[first:last].tolist()
        found.append((first, last))

    assert [first for first, _ in found] == [0, *(last for _, last in found[:-1])]
    assert found[-1][1] == len(cut.timeline())
    assert len(found) > 3
    assert not list(tmp_path.glob("*.segment"))


def test_a_store_that_fails_ends_it(media: MediaFactory, tmp_path: Path) -> None:
    class Full(MemoryStore):
        def put_file(self, key: str, path: Path, **how: Any) -> Any:
            if key == "segments/2":
                raise InfrastructureError("The disk is full.", where=key, do="Free some space.")
            return super().put_file(key, path, **how)

    chunks = stored_chunks(cutter(media, tmp_path), Full(), keys_of, before=0, after=0)

    with pytest.raises(InfrastructureError, match="disk is full"):
        list(chunks)
