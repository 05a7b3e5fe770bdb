"""Test media, made by the bundled ffmpeg program from synthetic sources and kept for one pytest session.

`MediaFactory.make(name)` gives the path of a file by the name of its recipe in RECIPES; a recipe is a list of ffmpeg
arguments, or a function of (factory, path) where one command is not enough. `make_custom` takes arguments of the
caller's own. Every clip is small (a second or two at 320×180 or less) and carries a frame counter in its picture, so
that no two frames are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.media_special import SPECIAL
from tests.media_tools import ffmpeg, picture, tone

__all__ = ["RECIPES", "MediaFactory", "ffmpeg", "picture", "tone"]

Recipe = Sequence[str] | Callable[["MediaFactory", Path], None]


class MediaFactory:
    """Makes each clip once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str) -> Path:
        """The clip of the recipe `name` ("h264_closed.mp4")."""
        path = self.folder / name
        if not path.exists():
            self._write(path, RECIPES[name])
        return path

    def make_custom(self, suffix: str, *arguments: str) -> Path:
        """A clip of any ffmpeg arguments (all but the output name), cached by them."""
        digest = hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:16]
        path = self.folder / f"custom-{digest}{suffix}"
        if not path.exists():
            self._write(path, arguments)
        return path

    def _write(self, path: Path, recipe: Recipe) -> None:
        part = path.with_name(f"part-{path.name}")
        if callable(recipe):
            recipe(self, part)
        else:
            ffmpeg(*recipe, str(part))
        part.rename(path)


def _x264(*options: str, pix_fmt: str = "yuv420p") -> list[str]:
    return ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", pix_fmt, *options]


def _x265(parameters: str, pix_fmt: str = "yuv420p") -> list[str]:
    joined = f"log-level=error:pools=2:frame-threads=1:{parameters}"
    return ["-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", pix_fmt, "-x265-params", joined]


_COLOUR = {
    "bt709": ["bt709", "bt709", "bt709"],
    "bt601": ["smpte170m", "smpte170m", "smpte170m"],
    "pq": ["bt2020", "smpte2084", "bt2020nc"],
    "hlg": ["bt2020", "arib-std-b67", "bt2020nc"],
}


def _tags(name: str, value_range: str = "tv") -> list[str]:
    primaries, transfer, matrix = _COLOUR[name]
    tags = ["-color_primaries", primaries, "-color_trc", transfer, "-colorspace", matrix, "-color_range", value_range]
    matrix = {"bt2020nc": "bt2020ncl"}.get(matrix, matrix)
    return ["-vf", f"scale=out_color_matrix={matrix.replace('ncl', '')}:out_range={value_range}", *tags]


def _edited(factory: MediaFactory, path: Path) -> None:
    """Cut by stream copy in the middle of a GOP: the edit list starts after the first key frame."""
    ffmpeg("-ss", "0.7", "-i", str(factory.make("h264_closed.mp4")), "-c", "copy", "-f", "mp4", str(path))


def _gapped(factory: MediaFactory, path: Path) -> None:
    """The picture stands still for a second in the middle: one frame lasts that long."""
    stretch = "setpts=PTS+if(gte(N\\,30)\\,1/TB\\,0)"
    ffmpeg(*picture(seconds=3), "-vf", stretch, "-fps_mode", "vfr", *_x264("-g", "24", "-bf", "2"), str(path))


def _jittery(factory: MediaFactory, path: Path) -> None:
    """Time stamps that are off by up to a third of a frame, as capture cards write them."""
    jitter = "setts=pts=PTS+mod(N*977\\,1201):dts=DTS"
    ffmpeg("-i", str(factory.make("h264.ts")), "-map", "0:v", "-c", "copy", "-bsf:v", jitter, str(path))


def _fast(factory: MediaFactory, path: Path) -> None:
    """Frames of 240 a second whose own headers say that they are of 30."""
    slow = factory.make_custom(".mp4", *picture(rate="30", seconds=4), *_x264("-g", "24", "-bf", "2"))
    ffmpeg("-i", str(slow), "-c", "copy", "-bsf:v", "setts=pts=PTS/8:dts=DTS/8:duration=DURATION/8", str(path))


def _late(factory: MediaFactory, path: Path) -> None:
    """A picture that starts half a second after the sound."""
    source = str(factory.make("h264_audio.mp4"))
    ffmpeg("-itsoffset", "0.5", "-i", source, "-i", source, "-map", "0:v", "-map", "1:a", "-c", "copy", str(path))


def _webp(factory: MediaFactory, path: Path) -> None:
    """Moving pictures in transparency, of unequal length, the last one long; without loss."""
    from PIL import Image

    pictures = []
    for number in range(8):
        picture = Image.new("RGBA", (61, 35), (0, 0, 0, 0))
        picture.paste((255 - 20 * number, 30 * number, 99, 40 + 25 * number), (4 * number, 3, 4 * number + 20, 30))
        pictures.append(picture)
    lengths = [40, 40, 80, 41, 40, 120, 40, 1500]
    pictures[0].save(
        path, "WEBP", save_all=True, append_images=pictures[1:], duration=lengths, lossless=True, exact=True
    )


def _rotated(degrees: str) -> Callable[[MediaFactory, Path], None]:
    def recipe(factory: MediaFactory, path: Path) -> None:
        ffmpeg("-display_rotation", degrees, "-i", str(factory.make("h264_closed.mp4")), "-c", "copy", str(path))

    return recipe


def _mirrored(degrees: str) -> Callable[[MediaFactory, Path], None]:
    def recipe(factory: MediaFactory, path: Path) -> None:
        source = str(factory.make("h264_closed.mp4"))
        ffmpeg("-display_rotation", degrees, "-display_hflip", "-i", source, "-c", "copy", str(path))

    return recipe


def _piped(factory: MediaFactory, path: Path) -> None:
    """Matroska that was written to a pipe: no duration, no cues."""
    done = ffmpeg("-i", str(factory.make("h264_open.mkv")), "-c", "copy", "-f", "matroska", "-")
    path.write_bytes(done.stdout)


def _truncated(factory: MediaFactory, path: Path) -> None:
    whole = factory.make("h264_closed.mp4").read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])


def _tail_lost(source: str) -> Callable[[MediaFactory, Path], None]:
    def recipe(factory: MediaFactory, path: Path) -> None:
        whole = factory.make(source).read_bytes()
        path.write_bytes(whole[: len(whole) * 3 // 4])

    return recipe


def _corrupt(source: str, spots: int = 6) -> Callable[[MediaFactory, Path], None]:
    """Overwrite 40 bytes at evenly spread spots past the head, so that some packets do not decode."""

    def recipe(factory: MediaFactory, path: Path) -> None:
        data = bytearray(factory.make(source).read_bytes())
        for spot in range(1, spots + 1):
            at = len(data) * spot // (spots + 2) + 777
            data[at : at + 40] = bytes((spot * 37 + i * 11) % 256 for i in range(40))
        path.write_bytes(bytes(data))

    return recipe


def _resized(factory: MediaFactory, path: Path) -> None:
    """MPEG-TS whose picture changes size half way."""
    small = factory.make_custom(".ts", *picture("160x90", seconds=1), *_x264("-g", "12"))
    large = factory.make_custom(".ts", *picture("320x180", seconds=1), *_x264("-g", "12"), "-output_ts_offset", "1")
    path.write_bytes(small.read_bytes() + large.read_bytes())


def _stepped(source: str) -> Callable[[MediaFactory, Path], None]:
    """Two transport streams one after the other, each with a clock that starts afresh."""

    def recipe(factory: MediaFactory, path: Path) -> None:
        part = factory.make(source).read_bytes()
        path.write_bytes(part + part)

    return recipe


def _with_cover(factory: MediaFactory, path: Path) -> None:
    cover = factory.make_custom(".png", *picture("64x64", seconds=0.05), "-frames:v", "1")
    arguments = ["-i", str(factory.make("h264_audio.mp4")), "-i", str(cover), "-map", "1", "-map", "0", "-c", "copy"]
    ffmpeg(*arguments, "-disposition:v:0", "attached_pic", "-disposition:v:1", "default", str(path))


def _text(_: MediaFactory, path: Path) -> None:
    path.write_text("This is a letter, not a film.\n" * 40)


def _empty(_: MediaFactory, path: Path) -> None:
    path.write_bytes(b"")


def _script(factory: MediaFactory, path: Path) -> None:
    """A concat script under a film's name."""
    path.write_text(f"ffconcat version 1.0\nfile {factory.make('h264_closed.mp4')}\n")


_PALETTE = "split[a][b];[a]palettegen=reserve_transparent=1[p];[b][p]paletteuse"
_VFR = "select='not(mod(n,3))+lt(n,20)+gt(n,50)'"

RECIPES: dict[str, Recipe] = {
    # H.264
    "h264_closed.mp4": [*picture(seconds=3), *_x264("-g", "24", "-bf", "2")],
    "h264_open.mkv": [*picture(seconds=4), *_x264("-g", "18", "-bf", "3", "-x264-params", "open-gop=1:b-adapt=0")],
    "h264_pyramid.mp4": [*picture(seconds=3), *_x264("-g", "30", "-bf", "5", "-x264-params", "b-pyramid=normal:ref=4")],
    "h264_refresh.ts": [*picture(seconds=4), *_x264("-g", "20", "-x264-params", "intra-refresh=1:keyint=infinite")],
    "h264_refresh.mp4": [*picture(seconds=4), *_x264("-g", "20", "-x264-params", "intra-refresh=1")],
    "h264_long_gop.mp4": [*picture(seconds=6, size="160x90"), *_x264("-g", "900", "-sc_threshold", "0")],
    "h264.ts": [*picture(), *tone(), *_x264("-g", "24", "-bf", "2"), "-c:a", "aac"],
    "h264_wrap.ts": [
        *picture(),
        *tone(),
        *_x264("-g", "24", "-bf", "2"),
        "-c:a",
        "aac",
        "-output_ts_offset",
        "95442.5",
    ],
    "h264_jitter.ts": _jittery,
    "h264_8k.mp4": [*picture("7680x4320", seconds=0.05), *_x264("-preset", "ultrafast", "-g", "2")],
    "h264_gap.mp4": _gapped,
    "edit_negative.mp4": [
        *[*picture(), *_x264("-g", "24", "-bf", "2"), "-use_editlist", "0", "-movflags", "+negative_cts_offsets"],
        *["-output_ts_offset", "-0.25", "-avoid_negative_ts", "disabled"],
    ],
    "h264_early.mkv": [*picture(), *_x264("-g", "24", "-bf", "2"), "-output_ts_offset", "-0.5"],
    "h264_mbaff.ts": [*picture(rate="25"), *_x264("-g", "25", "-flags", "+ilme+ildct", "-x264-params", "tff=1")],
    "h264_444_10.mkv": [*picture(seconds=1), *_x264("-g", "12", pix_fmt="yuv444p10le")],
    "h264_422.mp4": [*picture(seconds=1), *_x264("-g", "12", pix_fmt="yuv422p")],
    "h264_422_10.mov": [*picture(seconds=1), *_x264("-g", "12", pix_fmt="yuv422p10le")],
    "h264_gray.mkv": [*picture(seconds=1), *_x264("-g", "12", pix_fmt="gray")],
    "h264_rgb.mkv": [*picture(seconds=1), "-c:v", "libx264rgb", "-preset", "veryfast", "-g", "12"],
    "h264_full.mp4": [*picture(seconds=1), *_x264("-g", "12"), *_tags("bt709", "pc")],
    "h264_bt709.mp4": [*picture(seconds=1), *_x264("-g", "12"), *_tags("bt709")],
    "h264_bt601.mp4": [*picture(seconds=1), *_x264("-g", "12"), *_tags("bt601")],
    "h264_anamorphic.mp4": [*picture(seconds=1), *_x264("-g", "12"), "-aspect", "2.39"],
    "h264_audio.mp4": [*picture(), *tone(), *_x264("-g", "24", "-bf", "2"), "-c:a", "aac"],
    "h264_fragmented.mp4": [*picture(seconds=3), *_x264("-g", "24"), "-movflags", "+frag_keyframe+empty_moov"],
    "h264_faststart.mp4": [*picture(seconds=3), *_x264("-g", "24"), "-movflags", "+faststart"],
    "h264_edited.mp4": _edited,
    "h264_late.mp4": _late,
    "sound_late.mp4": [
        *picture(),
        *["-itsoffset", "0.7", *tone(1.3), "-map", "0:v", "-map", "1:a"],
        *[*_x264("-g", "24", "-bf", "2"), "-c:a", "aac"],
    ],
    "sound_first.mp4": [*tone(), *picture(), "-map", "0:a", "-map", "1:v", *_x264("-g", "24", "-bf", "2")],
    "h264_piped.mkv": _piped,
    "h264_vfr.mp4": [*picture(rate="30", seconds=3), "-vf", _VFR, "-fps_mode", "vfr", *_x264("-g", "20", "-bf", "2")],
    "h264_23976.mp4": [*picture(rate="24000/1001", seconds=3), *_x264("-g", "24", "-bf", "2")],
    "h264_2997.mkv": [*picture(rate="30000/1001", seconds=3), *_x264("-g", "24", "-bf", "2")],
    "h264_1fps.mp4": [*picture(rate="1", seconds=12), *_x264("-g", "6", "-bf", "2")],
    "h264_240_says_30.mp4": _fast,
    "h264_240.mp4": [*picture(rate="240", seconds=0.5), *_x264("-g", "24", "-bf", "2")],
    "h264_long_scan.mkv": [*picture(seconds=30, size="96x54"), *_x264("-g", "48", "-preset", "ultrafast")],
    "h264_one.mp4": [*picture(seconds=0.04), *_x264(), "-frames:v", "1"],
    "h264_rot90.mp4": _rotated("90"),
    "h264_rot180.mp4": _rotated("180"),
    "h264_rot270.mp4": _rotated("270"),
    "h264_mirror.mp4": _mirrored("90"),
    "h264_mirror0.mp4": _mirrored("0"),
    "h264_mirror180.mp4": _mirrored("180"),
    "h264_mirror270.mp4": _mirrored("270"),
    "h264_cover.mp4": _with_cover,
    "h264_resized.ts": _resized,
    "h264_stepped.ts": _stepped("h264.ts"),
    "h264_stepped_mute.ts": _stepped("h264_refresh.ts"),
    # HEVC, VP9, AV1
    "hevc_open.mp4": [*picture(seconds=4), *_x265("keyint=24:min-keyint=24:bframes=4:open-gop=1"), "-tag:v", "hvc1"],
    "hevc_10_pq.mp4": [
        *picture(seconds=2),
        *_x265(
            "keyint=24:hdr10=1:repeat-headers=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:range=limited:"
            "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400",
            pix_fmt="yuv420p10le",
        ),
        *_tags("pq"),
    ],
    "hevc_10_hlg.mkv": [
        *picture(seconds=1),
        *_x265("keyint=24:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc", pix_fmt="yuv420p10le"),
        *_tags("hlg"),
    ],
    "hevc_12_444.mkv": [*picture(seconds=1), *_x265("keyint=12", pix_fmt="yuv444p12le")],
    "vp9_hidden.webm": [
        *picture(seconds=3),
        *["-c:v", "libvpx-vp9", "-b:v", "300k", "-g", "24", "-auto-alt-ref", "1", "-lag-in-frames", "12"],
        *["-deadline", "realtime", "-cpu-used", "8"],
    ],
    "vp8.webm": [*picture(), "-c:v", "libvpx", "-b:v", "300k", "-g", "24", "-deadline", "realtime", "-cpu-used", "8"],
    "av1.mp4": [*picture(), "-c:v", "libsvtav1", "-preset", "12", "-g", "24", "-pix_fmt", "yuv420p10le"],
    # older and intra-only
    "mpeg2.mpg": [*picture(rate="25"), *tone(), "-c:v", "mpeg2video", "-bf", "2", "-g", "12", "-c:a", "mp2"],
    "mpeg2_interlaced.ts": [
        *picture(rate="25"),
        *["-c:v", "mpeg2video", "-bf", "2", "-g", "12", "-flags", "+ilme+ildct", "-vf", "setfield=tff"],
    ],
    "mpeg4_bframes.avi": [*picture(), "-c:v", "mpeg4", "-bf", "2", "-g", "24", "-q:v", "4"],
    "prores.mov": [*picture(seconds=1), "-c:v", "prores_ks", "-profile:v", "hq"],
    "prores4444.mov": [
        *["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=24:duration=1,format=yuva444p10le"],
        *["-c:v", "prores_ks", "-profile:v", "4444", "-pix_fmt", "yuva444p10le"],
    ],
    "dnxhr.mxf": [*picture("640x360", seconds=1), "-c:v", "dnxhd", "-profile:v", "dnxhr_hq", "-pix_fmt", "yuv422p"],
    "ffv1.mkv": [*picture(seconds=1), "-c:v", "ffv1", "-level", "3", "-pix_fmt", "yuv422p10le"],
    "ffv1_tiny.mkv": [*picture("17x3", seconds=1), "-c:v", "ffv1", "-slices", "1", "-pix_fmt", "yuv444p"],
    "raw_1x1.nut": [*picture("64x36", seconds=0.5), "-vf", "format=gray,crop=1:1", "-c:v", "rawvideo"],
    "ffv1_odd.mkv": [*picture("321x241", seconds=1), "-c:v", "ffv1", "-pix_fmt", "yuv420p"],
    "mjpeg.avi": [*picture(seconds=1), "-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p"],
    "dv.avi": [*picture("720x576", rate="25", seconds=0.6), "-c:v", "dvvideo", "-pix_fmt", "yuv420p"],
    "dv.dv": [*picture("720x576", rate="25", seconds=0.6), "-c:v", "dvvideo", "-pix_fmt", "yuv420p"],
    "raw.nut": [*picture("64x36", seconds=0.5), "-c:v", "rawvideo", "-pix_fmt", "nv12"],
    "raw_rgb.avi": [*picture("64x36", seconds=0.5), "-c:v", "rawvideo", "-pix_fmt", "bgr24"],
    "animated.gif": [*picture("160x90", rate="10"), "-filter_complex", "split[a][b];[a]palettegen[p];[b][p]paletteuse"],
    "alpha.gif": [
        *picture("160x90", rate="10"),
        *["-filter_complex", "format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='255*gt(X,40+N)'," + _PALETTE],
    ],
    "animated.apng": [
        *["-f", "lavfi", "-i", "testsrc2=size=160x90:rate=10:duration=1,format=rgba,colorchannelmixer=aa=0.5"],
        *["-f", "apng", "-plays", "0"],
    ],
    "alpha.webp": _webp,
    "animated.webp": [*picture("160x90", rate="10", seconds=1), "-c:v", "libwebp_anim", "-loop", "0"],
    "qtrle.mov": [*picture("160x90", seconds=1), "-c:v", "qtrle"],
    "theora.ogv": [*picture(seconds=1), "-c:v", "libtheora", "-q:v", "6", "-g", "12"],
    "wmv2.asf": [*picture(seconds=1), "-c:v", "wmv2", "-g", "12"],
    # damaged and not films at all
    "corrupt_h264.mp4": _corrupt("h264_closed.mp4"),
    "corrupt_h264.ts": _corrupt("h264.ts"),
    "corrupt_hevc.mp4": _corrupt("hevc_open.mp4"),
    "tail_lost.mkv": _tail_lost("h264_open.mkv"),
    "tail_lost.ts": _tail_lost("h264.ts"),
    "truncated.mp4": _truncated,
    "text.mp4": _text,
    "empty.mp4": _empty,
    "script.mp4": _script,
    "sound_only.mp4": [*tone(1), "-c:a", "aac"],
} | SPECIAL
