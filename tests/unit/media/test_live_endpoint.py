"""The ends of a live line: only what is allowed, never an option or a protocol by accident."""

from pathlib import Path

import pytest

from farm.errors import InputError
from farm.media.live_endpoint import Endpoint, Kind, sink, sink_arguments, source, source_arguments


@pytest.mark.parametrize(
    ("text", "kind"),
    [("rtsp://camera/1", Kind.RTSP), ("RTMP://host/live/key", Kind.RTMP), ("rtmps://host/live", Kind.RTMP)],
)
def test_addresses_of_sources(text: str, kind: Kind) -> None:
    assert source(text) == Endpoint(kind, text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("rtmp://host/live/key", Kind.RTMP),
        ("srt://host:9000", Kind.SRT),
        ("https://host/whip/room", Kind.WHIP),
        ("out.MKV", Kind.FILE),
    ],
)
def test_addresses_of_sinks(text: str, kind: Kind) -> None:
    assert sink(text).kind is kind


@pytest.mark.parametrize("text", ["http://host/a.m3u8", "concat://a", "file:///etc/passwd", "rtsp://", "no-such-file"])
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        source(text)


@pytest.mark.parametrize("text", ["ftp://host/a", "tcp://host:1", "out.exe", "out", "/dev/sda"])
def test_what_is_no_sink_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        sink(text)


def test_a_path_is_never_an_option_or_a_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = Path("-concat:a|b.mp4")
    odd.write_bytes(b"x")
    found = source(str(odd))
    said = source_arguments(found)
    assert said[said.index("-i") + 1] == f"file:{tmp_path}/{odd}"
    assert said[said.index("-protocol_whitelist") + 1] == "file"
    assert sink_arguments(sink("-out.mkv"), rate=25, metadata={})[-1] == f"file:{tmp_path}/-out.mkv"


def test_an_error_names_no_password() -> None:
    assert source("rtsp://user:secret@camera:554/1?token=x").name == "rtsp://camera"


def test_only_rtmp_can_be_waited_for() -> None:
    assert "-listen" in source_arguments(source("rtmp://127.0.0.1/live"), listen=True)
    with pytest.raises(InputError, match="rtmp"):
        source_arguments(source("rtsp://127.0.0.1/live"), listen=True)


def test_a_sink_gets_a_key_frame_every_two_seconds_and_sound_that_it_knows() -> None:
    said = sink_arguments(sink("https://host/whip"), rate=29.97, metadata={"AIGC": "{}"})
    assert said[said.index("-g") + 1] == "60"
    assert said[said.index("-c:a") + 1] == "libopus"
    assert said[said.index("-metadata") + 1] == "AIGC={}"
    assert said[-2:] == ["whip", "https://host/whip"]
