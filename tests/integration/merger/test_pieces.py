"""Chunks joined by pieces of their files give the film that joining them packet by packet gives."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from farm.errors import FarmError
from farm.media.writer import file_sha256
from farm.merger import fragments, join
from farm.merger.join import ChunkFile, write_joined
from tests.integration.merger.workshop import Rendered, Workshop


def packets(path: Path) -> list[tuple[Any, ...]]:
    """Everything that a demuxer says of every packet."""
    with av.open(str(path)) as container:
        return [
            (p.stream_index, p.pts, p.dts, p.duration, p.is_keyframe, bytes(p)) for p in container.demux() if p.size
        ]


def in_nut(chunk: ChunkFile) -> ChunkFile:
    """The same packets in a file that has to be read packet by packet."""
    path = chunk.path.with_suffix(".nut")
    with av.open(str(chunk.path), options={"ignore_editlist": "1"}) as source:
        stream: Any = source.streams.video[0]
        found: list[Any] = [packet for packet in source.demux(stream) if packet.size]
        with av.open(str(path), "w", format="nut", options={"avoid_negative_ts": "disabled"}) as target:
            out: Any = target.add_stream_from_template(stream, opaque=True)
            out.time_base, first = stream.time_base, min(packet.pts for packet in found)
            for number, packet in enumerate(found):
                packet.pts, packet.dts, packet.stream = packet.pts - first, number - 64, out
                target.mux_one(packet)
    changes = {"sha256": file_sha256(path), "size": path.stat().st_size}
    return ChunkFile(path, chunk.facts.model_copy(update=changes))


@pytest.mark.parametrize(
    ("plate", "name"),
    [
        ("h264_audio.mp4", "h264"),
        ("h264_vfr.mp4", "h264"),
        ("h264_23976.mp4", "hevc10"),
        ("h264_audio.mp4", "av1"),
        ("h264_open.mkv", "h264"),
    ],
)
def test_pieces_give_the_packets_of_the_longer_way(workshop: Workshop, plate: str, name: str) -> None:
    rendered = workshop.render(workshop.media.make(plate), name, 5)
    rendered.merge(chunks=[in_nut(chunk) for chunk in rendered.chunks])
    wanted = packets(rendered.out)

    rendered.merge()

    assert join.is_boxed(rendered.chunks[0])
    assert packets(rendered.out) == wanted


def test_fragments_and_pieces_may_be_small(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 3)
    rendered.merge()
    whole = packets(rendered.out)
    monkeypatch.setattr(fragments, "_FRAGMENT_BYTES", 20_000)
    monkeypatch.setattr(fragments, "_POURED", 1000)
    monkeypatch.delattr("os.splice", raising=False)

    rendered.merge()

    assert packets(rendered.out) == whole


@pytest.fixture
def rendered(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Rendered:
    monkeypatch.delattr("os.splice", raising=False)  # what is written goes into memory here
    return workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 3)


def _swallow(chunks: list[ChunkFile], rendered: Rendered) -> None:
    write_joined(chunks, rendered.timeline, io.BytesIO())


@pytest.mark.parametrize(
    ("other", "words"), [(0, "which is no frame of the plan"), (1, "frames are missing|no frame of the plan")]
)
def test_a_chunk_that_holds_other_frames_than_it_says_is_named(rendered: Rendered, other: int, words: str) -> None:
    facts = rendered.chunks[1].facts
    short = facts.model_copy(update={"last": facts.last + (2 * other - 1) * 3})
    spoilt = [rendered.chunks[0], rendered.chunks[1]._replace(facts=short), rendered.chunks[2]]

    with pytest.raises(FarmError, match=words):
        _swallow(spoilt, rendered)


def test_a_hash_that_was_found_on_the_way_in_counts(rendered: Rendered) -> None:
    wrong = [rendered.chunks[0]._replace(sha256="0" * 64), *rendered.chunks[1:]]

    with pytest.raises(FarmError, match="sha256 is not"):
        _swallow(wrong, rendered)


def test_a_packet_that_is_due_before_it_can_be_shown_is_named(rendered: Rendered) -> None:
    chunks = [chunk._replace(facts=chunk.facts.model_copy(update={"reorder": 0})) for chunk in rendered.chunks]

    with pytest.raises(FarmError, match="too late"):
        _swallow(chunks, rendered)


def test_parts_hold_each_sample_once() -> None:
    size = np.array([10, 5_000_000, 1, 1, 3_999_999, 2], np.int64)

    parts = list(fragments._parts(size))

    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(6))
    assert all(part.stop > part.start for part in parts)
