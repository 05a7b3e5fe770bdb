"""What the farm reads and how much of it: allow-lists and limits, in one place.

Names are FFmpeg's. A container or codec that is not listed is refused, not tried.
"""

from __future__ import annotations

DEMUXERS = (
    *("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts", "mpeg", "avi", "dv", "nut", "ogg", "flv", "mxf", "asf"),
    *("gif", "apng", "ivf", "yuv4mpegpipe", "webp_pipe"),
)
"""Containers: none that names other files (playlists, scripts, image sequences) or opens a device."""

VIDEO_DECODERS = (
    *("h264", "hevc", "vvc", "libdav1d", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4", "h263"),
    *("msmpeg4v2", "msmpeg4", "wmv1", "wmv2", "wmv3", "vc1", "theora", "flv", "prores", "dnxhd", "cfhd", "dvvideo"),
    *("mjpeg", "jpeg2000", "ffv1", "ffvhuff", "huffyuv", "utvideo", "magicyuv", "qtrle", "png", "apng", "gif"),
    *("rawvideo", "v210", "hap"),
)
AUDIO_DECODERS = (
    *("aac", "aac_latm", "ac3", "eac3", "alac", "dca", "flac", "libopus", "opus", "mp1float", "mp2", "mp2float", "mp3"),
    *("mp3float", "truehd", "mlp", "vorbis", "libvorbis", "wavpack", "wmav1", "wmav2", "wmapro", "libopencore_amrnb"),
    *("amrnb", "amrwb", "adpcm_ms", "adpcm_ima_wav", "adpcm_ima_qt", "pcm_s8", "pcm_u8", "pcm_s16le", "pcm_s16be"),
    *("pcm_s24le", "pcm_s24be", "pcm_s32le", "pcm_s32be", "pcm_f32le", "pcm_f32be", "pcm_f64le", "pcm_f64be"),
    *("pcm_alaw", "pcm_mulaw", "pcm_bluray", "pcm_dvd", "s302m"),
)
"""Sound is never decoded for a job; these may be opened to find out a track's sample rate and layout."""

ONE_PICTURE_A_PACKET = frozenset(
    (
        *(
            "h264",
            "hevc",
            "vvc",
            "libdav1d",
            "av1",
            "vp8",
            "vp9",
            "mpeg1video",
            "mpeg2video",
            "prores",
            "dnxhd",
            "cfhd",
        ),
        *("dvvideo", "mjpeg", "jpeg2000", "ffv1", "ffvhuff", "huffyuv", "utvideo", "magicyuv", "png", "apng", "gif"),
        *("rawvideo", "v210", "hap", "qtrle"),
    )
)
"""Codecs whose packets, as the demuxers hand them out, each give one picture (but for pairs of fields, see scan)."""

INTRA_ONLY = frozenset(
    (
        *("prores", "dnxhd", "cfhd", "dvvideo", "mjpeg", "jpeg2000", "ffvhuff", "huffyuv", "utvideo", "magicyuv"),
        *("png", "rawvideo", "v210", "hap"),
    )
)
"""Codecs in which every packet can be decoded by itself, whatever the container flags."""

SILENT = frozenset(("hevc", "vvc", "vp8"))
"""Codecs whose decoder passes over many faults without a word and leaves there what its buffers held before: with
several threads that is something else each time, so they are decoded by one."""

MAX_SIDE = 16384
MAX_PIXELS = 8192 * 8192
MAX_STREAMS = 128
MAX_SECONDS = 24 * 3600
MAX_PACKET_BYTES = 512 * 1024 * 1024
READ_TIMEOUT_SECONDS = 60.0
"""No single read may take longer than this without giving anything."""
PROBE_BYTES = 64 * 1024 * 1024
"""How much of the file may be read to find its streams."""
