"""Chunks joined by pieces of their files give the film that joining them packet by packet gives."""

from __future__ import annotations

import resource
from itertools import count
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from farm.errors import FarmError
from farm.media.writer import file_sha256
from farm.merger import fragments, join, reel
from farm.merger.join import ChunkFile
from farm.merger.reel import write_reel
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


def test_more_chunks_than_files_may_be_open_give_the_same_film(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 5)
    rendered.merge()
    whole, limit = packets(rendered.out), (reel._OTHER_FILES + 2, 1 << 20)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit)

    rendered.merge()

    assert packets(rendered.out) == whole


def test_a_folder_may_have_any_name(workshop: Workshop, tmp_path: Path) -> None:
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 2)
    folder = tmp_path / "it's a\\b|c: %d \n'"
    folder.mkdir()
    rendered.out = folder / "out.mp4"
    rendered.chunks = [chunk._replace(path=chunk.path.rename(folder / chunk.path.name)) for chunk in rendered.chunks]

    assert rendered.merge().verified.ok
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["out.mp4", *(chunk.path.name for chunk in rendered.chunks)]
    )


@pytest.fixture
def rendered(workshop: Workshop) -> Rendered:
    return workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 3)


def _index(chunks: list[ChunkFile], rendered: Rendered) -> None:
    write_reel(chunks, rendered.timeline, rendered.out.parent)


@pytest.mark.parametrize(
    ("other", "words"), [(0, "which is no frame of the plan"), (1, "frames? missing|no frame of the plan")]
)
def test_a_chunk_that_holds_other_frames_than_it_says_is_named(rendered: Rendered, other: int, words: str) -> None:
    facts = rendered.chunks[1].facts
    short = facts.model_copy(update={"last": facts.last + (2 * other - 1) * 3})
    spoilt = [rendered.chunks[0], rendered.chunks[1]._replace(facts=short), rendered.chunks[2]]

    with pytest.raises(FarmError, match=words):
        _index(spoilt, rendered)


def test_a_hash_that_was_found_on_the_way_in_counts(rendered: Rendered) -> None:
    wrong = [rendered.chunks[0]._replace(sha256="0" * 64), *rendered.chunks[1:]]

    with pytest.raises(FarmError, match="sha256 is not"):
        rendered.merge(chunks=wrong)


def test_a_table_that_leads_out_of_its_file_is_named(rendered: Rendered) -> None:
    facts = rendered.chunks[1].facts
    less = facts.model_copy(update={"size": facts.size // 4})

    with pytest.raises(FarmError, match="behind its end"):
        _index([rendered.chunks[0], rendered.chunks[1]._replace(facts=less), rendered.chunks[2]], rendered)


def test_a_packet_that_is_due_before_it_can_be_shown_is_named(rendered: Rendered) -> None:
    chunks = [chunk._replace(facts=chunk.facts.model_copy(update={"reorder": 0})) for chunk in rendered.chunks]

    with pytest.raises(FarmError, match="too late"):
        _index(chunks, rendered)


def test_samples_that_lie_in_two_pieces_get_a_fragment_each() -> None:
    at = np.arange(4)
    samples = fragments.Samples(
        at, at, at, np.array([100, 110, 1 << 33, (1 << 33) + 7]), np.array([10, 5, 7, 9]), at > 9
    )

    first, second = fragments.fragments(samples, count(7))

    assert (first[12:16], second[12:16]) == (b"mfhd", b"mfhd")
    assert [int.from_bytes(box[20:24], "big") for box in (first, second)] == [7, 8]
    places = [int.from_bytes(box[at : at + 8], "big") for box in (first, second) if (at := box.index(b"tfhd") + 12)]
    assert places == [100, 1 << 33]
