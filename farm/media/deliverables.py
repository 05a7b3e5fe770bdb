"""Deliverables: the files that a job can be for, as named, versioned presets. Plain data; `encoders` makes plans of it.

A version changes whenever a setting changes that alters bits, so that a job's record says exactly what was made.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from farm.errors import NotFoundError, unknown


class Source(StrEnum):
    """Which pictures of a render a deliverable is made of."""

    PICTURE = "picture"
    MASK = "mask"
    FACE = "face"


class _Preset(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EncoderChoice(_Preset):
    """One encoder that can make a deliverable, with its tested settings.

    Attributes
    ----------
    encoder: FFmpeg's name.
    formats: the sample formats it may be given, each with the options that go with it.
    options: the encoder's options; `params_key` names the one that holds `params` ("x264-params").
    hardware: whether a probe must prove it before it is used.
    least: smallest width and height that it takes; smaller pictures are padded.
    full_range: False where the format knows limited range only.
    interlaced: whether it codes fields as fields.
    reorders: whether it makes B-frames.
    """

    encoder: str
    formats: dict[str, dict[str, str]]
    options: dict[str, str] = {}
    params_key: str | None = None
    params: dict[str, str] = {}
    hardware: bool = False
    least: tuple[int, int] = (1, 1)
    full_range: bool = True
    interlaced: bool = False
    reorders: bool = False


class Deliverable(_Preset):
    """A preset.

    `container` is FFmpeg's muxer name (for `match`, `match()` says which); `tag` the four-character code that players
    want. `encoders` are tried in order. `key_seconds` is the longest way between key frames. `max_height` shrinks
    larger pictures. `burn_in` writes timecode and frame number into the picture. `sized` ones are made to a size that
    the job names, by one encode of the whole.
    """

    name: str
    version: int
    title: str
    container: str
    suffix: str
    encoders: tuple[EncoderChoice, ...]
    source: Source = Source.PICTURE
    lossless: bool = False
    tag: str | None = None
    key_seconds: int = 4
    max_height: int | None = None
    burn_in: bool = False
    carries_tracks: bool = True
    sized: bool = False


# scenecut stays on in x264: each chunk has its own encoder, so no state crosses a seam, and cuts get their key frame.
# Headers are repeated so that a file survives tools that drop the container's copy.
_X264 = EncoderChoice(
    encoder="libx264",
    formats={"yuv420p": {"profile": "high"}},
    options={"preset": "medium", "crf": "17"},
    params_key="x264-params",
    params={"open-gop": "0", "repeat-headers": "1"},
    interlaced=True,
    reorders=True,
)
_X265 = EncoderChoice(
    encoder="libx265",
    formats={"yuv420p10le": {"profile": "main10"}},
    options={"preset": "medium", "crf": "18"},
    params_key="x265-params",
    params={"open-gop": "0", "repeat-headers": "1", "log-level": "error"},
    least=(32, 32),
    reorders=True,
)
# Preset 8 of SVT-AV1 is the slowest that a CPU worker can afford at 1080p.
_SVT = EncoderChoice(
    encoder="libsvtav1",
    formats={"yuv420p10le": {}},
    options={"preset": "8", "crf": "20"},
    params_key="svtav1-params",
    params={"tune": "0"},
    least=(64, 64),
)
_NVENC = {
    "preset": "p6",
    "tune": "hq",
    "rc": "constqp",
    "forced-idr": "1",
    "no-scenecut": "1",
    "strict_gop": "1",
    "b_adapt": "0",
    "bf": "0",
}


def _nvenc(encoder: str, formats: dict[str, dict[str, str]], qp: int) -> EncoderChoice:
    return EncoderChoice(encoder=encoder, formats=formats, options=_NVENC | {"qp": str(qp)}, hardware=True)


# One encode of the whole to a bit rate that the merge fills in: x264 in two passes, NVENC with its own look ahead.
_X264_FIT = _X264.model_copy(update={"options": {"preset": "medium"}})
_NVENC_FIT = EncoderChoice(
    encoder="h264_nvenc",
    formats={"yuv420p": {"profile": "high"}},
    options={**_NVENC, "rc": "vbr", "multipass": "fullres"},
    hardware=True,
)

_FFV1_FORMATS = (
    *(f"yuv{chroma}" for chroma in ("420p", "422p", "444p", "440p", "411p", "410p")),
    *(f"yuva{chroma}" for chroma in ("420p", "422p", "444p")),
    *(f"yuv{chroma}{depth}le" for chroma in ("420p", "422p", "444p") for depth in (9, 10, 12, 14, 16)),
    *(f"yuva{chroma}{depth}le" for chroma in ("420p", "422p", "444p") for depth in (9, 10, 16)),
    *("yuv440p10le", "yuv440p12le", "yuva422p12le", "yuva444p12le"),
    *("gray", "gray9le", "gray10le", "gray12le", "gray14le", "gray16le", "ya8"),
    *("bgr0", "bgra", "gbrp9le"),
    *(f"gbr{alpha}p{depth}le" for alpha in ("", "a") for depth in (10, 12, 14, 16)),
)

# g=1: every frame is a key frame, so chunks join anywhere. slicecrc: a flipped bit is seen when it is read.
_FFV1 = EncoderChoice(
    encoder="ffv1",
    formats={name: {} for name in _FFV1_FORMATS},
    options={"level": "3", "coder": "range_def", "context": "0", "g": "1", "slicecrc": "1"},
)
_PRORES_HQ = EncoderChoice(
    encoder="prores_ks",
    formats={"yuv422p10le": {"profile": "hq"}},
    options={"vendor": "apl0"},
    full_range=False,
    interlaced=True,
)
_PRORES_4444 = EncoderChoice(
    encoder="prores_ks",
    formats={"yuv444p10le": {"profile": "4444"}, "yuva444p10le": {"profile": "4444", "alpha_bits": "16"}},
    options={"vendor": "apl0"},
    full_range=False,
    interlaced=True,
)
_DNXHR = EncoderChoice(
    encoder="dnxhd",
    formats={
        "yuv422p": {"profile": "dnxhr_hq"},
        "yuv422p10le": {"profile": "dnxhr_hqx"},
        "yuv444p10le": {"profile": "dnxhr_444"},
    },
    least=(256, 120),
    full_range=False,
)

_H264_ANY = _X264.model_copy(
    update={
        "formats": {
            "yuv420p": {"profile": "high"},
            "yuv422p": {"profile": "high422"},
            "yuv444p": {"profile": "high444"},
            "gray": {"profile": "high"},
            "yuv420p10le": {"profile": "high10"},
            "yuv422p10le": {"profile": "high422"},
            "yuv444p10le": {"profile": "high444"},
            "gray10le": {"profile": "high422"},
        }
    }
)
_HEVC_FORMATS = (
    *(f"yuv{chroma}{depth}" for chroma in ("420p", "422p", "444p") for depth in ("", "10le", "12le")),
    *("gray", "gray10le", "gray12le", "gbrp", "gbrp10le", "gbrp12le"),
)
_HEVC_ANY = _X265.model_copy(update={"formats": {name: {} for name in _HEVC_FORMATS}})
# Alternate reference frames reach over a chunk's end, so VP9 goes without.
_VP9 = EncoderChoice(
    encoder="libvpx-vp9",
    formats={"yuv420p": {"profile": "0"}, "yuv422p": {"profile": "1"}, "yuv444p": {"profile": "1"}},
    options={"crf": "18", "b": "0", "deadline": "good", "cpu-used": "3", "row-mt": "1", "auto-alt-ref": "0"},
)
_AV1_ANY = _SVT.model_copy(update={"formats": {"yuv420p": {}, "yuv420p10le": {}}})

MATCH = "match"

PRESETS: dict[str, Deliverable] = {
    preset.name: preset
    for preset in (
        Deliverable(
            name="h264",
            version=1,
            title="H.264, 8 bit 4:2:0, MP4: plays everywhere",
            container="mp4",
            suffix=".mp4",
            encoders=(_nvenc("h264_nvenc", {"yuv420p": {"profile": "high"}}, 17), _X264),
        ),
        Deliverable(
            name="h264-fit",
            version=1,
            title="H.264, 8 bit 4:2:0, MP4, as good as fits into a size that you name",
            container="mp4",
            suffix=".mp4",
            encoders=(_NVENC_FIT, _X264_FIT),
            sized=True,
        ),
        Deliverable(
            name="ffv1",
            version=1,
            title="FFV1, Matroska: lossless, the plate's own samples",
            container="matroska",
            suffix=".mkv",
            encoders=(_FFV1,),
            lossless=True,
        ),
        Deliverable(
            name="hevc10",
            version=1,
            title="HEVC, 10 bit 4:2:0, MP4: HDR stays HDR",
            container="mp4",
            suffix=".mp4",
            tag="hvc1",
            encoders=(_nvenc("hevc_nvenc", {"p010le": {"profile": "main10"}}, 18), _X265),
        ),
        Deliverable(
            name="av1",
            version=1,
            title="AV1, 10 bit 4:2:0, MP4",
            container="mp4",
            suffix=".mp4",
            encoders=(_nvenc("av1_nvenc", {"p010le": {}}, 80), _SVT),
        ),
        Deliverable(
            name="prores",
            version=1,
            title="ProRes 422 HQ, QuickTime",
            container="mov",
            suffix=".mov",
            encoders=(_PRORES_HQ,),
        ),
        Deliverable(
            name="prores4444",
            version=1,
            title="ProRes 4444, QuickTime: keeps alpha",
            container="mov",
            suffix=".mov",
            encoders=(_PRORES_4444,),
        ),
        Deliverable(
            name="dnxhr",
            version=1,
            title="DNxHR HQ (8 bit), HQX (10 bit) or 444, QuickTime",
            container="mov",
            suffix=".mov",
            encoders=(_DNXHR,),
        ),
        Deliverable(
            name="review",
            version=1,
            title="Small H.264 proxy with burnt-in timecode",
            container="mp4",
            suffix=".mp4",
            encoders=(_X264.model_copy(update={"options": {"preset": "veryfast", "crf": "24"}}),),
            max_height=540,
            burn_in=True,
            key_seconds=1,
        ),
        Deliverable(
            name="matte",
            version=1,
            title="The face mask as grey ProRes 422 HQ, white is face",
            container="mov",
            suffix=".mov",
            encoders=(_PRORES_HQ,),
            source=Source.MASK,
            carries_tracks=False,
        ),
        Deliverable(
            name="face-only",
            version=1,
            title="The rendered face alone, ProRes 4444 with the mask as straight alpha",
            container="mov",
            suffix=".mov",
            encoders=(_PRORES_4444,),
            source=Source.FACE,
            carries_tracks=False,
        ),
        Deliverable(
            name=MATCH,
            version=1,
            title="The plate's own kind of codec, depth, chroma and container",
            container="plate",
            suffix="",
            encoders=(),
        ),
    )
}

_MATCHES: dict[str, tuple[EncoderChoice, ...]] = {
    "h264": (_H264_ANY,),
    "hevc": (_HEVC_ANY,),
    "av1": (_AV1_ANY,),
    "vp9": (_VP9,),
    "vp8": (_VP9,),
    "prores": (_PRORES_HQ, _PRORES_4444),
    "dnxhd": (_DNXHR,),
    "mpeg1video": (_H264_ANY,),
    "mpeg2video": (_H264_ANY,),
    "mpeg4": (_H264_ANY,),
    "dvvideo": (_PRORES_HQ,),
}
_CONTAINERS = {"mp4": ".mp4", "mov": ".mov", "matroska": ".mkv"}
_QUICKTIME_ENCODERS = frozenset({"prores_ks", "dnxhd"})


def match(codec: str, demuxer: str, brand: str = "") -> Deliverable:
    """The concrete preset that `match` stands for, by FFmpeg's names of the plate's codec and demuxer.

    A codec that the farm cannot write becomes FFV1, which loses nothing. `brand` is the MP4 family's major brand.
    """
    encoders = _MATCHES.get(codec, (_FFV1,))
    kinds = demuxer.split(",")
    if encoders[0].encoder in _QUICKTIME_ENCODERS and "matroska" not in kinds:
        container = "mov"
    elif "mov" in kinds and encoders[0].encoder != "ffv1":
        container = "mov" if brand.strip() == "qt" else "mp4"
    else:
        container = "mov" if encoders[0].encoder == "dnxhd" else "matroska"
    return PRESETS[MATCH].model_copy(
        update={
            "container": container,
            "suffix": _CONTAINERS[container],
            "encoders": encoders,
            "lossless": encoders == (_FFV1,),
            "tag": "hvc1" if codec == "hevc" and container != "matroska" else None,
        }
    )


def names() -> list[str]:
    """Every preset's name."""
    return list(PRESETS)


def deliverable(name: str) -> Deliverable:
    """The preset called `name`; NotFoundError names those there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise unknown(NotFoundError, "deliverable", name, names()) from None
