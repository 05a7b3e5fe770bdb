"""Long GOPs of large packets go to disk, and come back the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.chunker.plan import plan_chunks
from farm.media import segment
from farm.media.probe import probe
from farm.media.reader import read_segment
from farm.media.scan import scan_timeline
from tests.integration.media.truth import hashes, plain_decode
from tests.media_factory import MediaFactory


def test_packets_kept_on_disk_are_the_same(
    media: MediaFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "_IN_MEMORY", 5000)
    path = media.make("h264_open.mkv")
    facts = probe(path)
    timeline = scan_timeline(path, facts)
    segments = list(
        segment.cut_segments(path, facts, timeline, plan_chunks(timeline, target_seconds=0.5), tmp_path, before=4)
    )
    found = [h for s in segments for h in hashes(read_segment(s.path, facts, timeline, s.first, s.last))]
    assert found == plain_decode(path)
