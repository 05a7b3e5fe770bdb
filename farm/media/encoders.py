"""Which encoder makes a deliverable of a plate, with which settings, and why: the encoder plan.

The plan is made once for a job and shipped to every chunk. Everything that reaches the bitstream's headers is in it, so
that all chunks have the same extradata and can be joined by copying packets.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict

from farm.errors import RecipeError
from farm.media import hdr, names
from farm.media.chunkfile import chunk_container
from farm.media.deliverables import MATCH, Deliverable, EncoderChoice, Source, match
from farm.media.encoder_probe import Probe, probe_encoder, why_not
from farm.media.facts import ColourFacts, PlateFacts, Rational, VideoFacts
from farm.media.loudness import LoudnessNorm
from farm.media.planes import is_full_range_format, planar_format
from farm.media.samples import chroma_shifts, closest, lost, make_of

_DEFAULT_RATE = Fraction(25)
_SLOWEST, _FASTEST = Fraction(1, 60), Fraction(1000)
_LONGEST_GOP = 250
_INTRA_ONLY = frozenset({"ffv1", "prores_ks", "dnxhd"})


# Copying loses the profile that a muxer picks these codes by.
_TAGS = {"hq": "apch", "4444": "ap4h", "dnxhr_hq": "AVdh", "dnxhr_hqx": "AVdh", "dnxhr_444": "AVdh"}


class EncoderPlan(BaseModel):
    """How every chunk of one deliverable is encoded.

    Attributes
    ----------
    options: what the encoder is opened with, colour and GOP included.
    source_format, sample_format: the samples that come in and that are coded.
    source_width, source_height: the plate's coded size. width, height: the size that is encoded.
    pad_right, pad_bottom: how many columns and rows of the encoded size repeat the last one of the picture.
    filters: (name, arguments) of the FFmpeg filters between the two; empty where samples go in as they are.
    rate: the frame rate that the encoder is told. It counts frames; the container holds the plate's own clock.
    why: how the encoder was chosen, in sentences. changes: what the picture loses by it, in sentences.
    finals: where chunks are a mezzanine only, the ways in which the merge may encode the whole, to at most `max_bytes`;
        the first that works where the merge runs is taken.
    loudness: the norm that the merge brings the sound to; None copies it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    deliverable: str
    version: int
    source: Source
    encoder: str
    hardware: bool
    lossless: bool
    options: dict[str, str]
    source_format: str
    sample_format: str
    source_width: int
    source_height: int
    width: int
    height: int
    pad_right: int = 0
    pad_bottom: int = 0
    filters: tuple[tuple[str, str], ...] = ()
    burn_in: bool = False
    colour: ColourFacts
    sample_aspect_ratio: Rational = Fraction(1)
    field_order: str = "progressive"
    rate: Rational
    container: str
    suffix: str
    tag: str | None = None
    carries_tracks: bool = True
    chunk_container: str
    chunk_suffix: str
    why: tuple[str, ...]
    changes: tuple[str, ...] = ()
    finals: tuple[EncoderPlan, ...] = ()
    max_bytes: int | None = None
    loudness: LoudnessNorm | None = None

    def _later(self) -> set[str]:
        """Names of what plans did not always have, and this one does not use."""
        return (set() if self.finals else {"finals", "max_bytes"}) | (set() if self.loudness else {"loudness"})

    def to_json(self) -> dict[str, Any]:
        """Plain data that an older farm can read too, as far as it can do what the plan says."""
        return self.model_dump(mode="json", exclude=self._later())

    def digest(self) -> str:
        """sha256 of the plan without its words and its sound: chunks with one digest belong together."""
        text = self.model_dump_json(exclude={"why", "changes", "loudness"} | self._later())
        return hashlib.sha256(text.encode()).hexdigest()


def why_not_here(plan: EncoderPlan) -> str | None:
    """Why this machine cannot encode as `plan` says; None where it encoded a frame."""
    return why_not(plan.encoder, plan.options, plan.sample_format, (plan.width, plan.height))


def resolve(deliverable: Deliverable, facts: PlateFacts) -> Deliverable:
    """The deliverable itself, or for `match` the concrete one that fits the plate."""
    if deliverable.name != MATCH:
        return deliverable
    found = match(facts.video.codec, facts.container, facts.metadata.get("major_brand", ""))
    plate = facts.video.sample_format
    kindest = sorted(found.encoders, key=lambda choice: len(lost(plate, closest(plate, choice.formats))))
    return found.model_copy(update={"encoders": tuple(kindest)})


def chunk_encoder(
    deliverable: Deliverable,
    facts: PlateFacts,
    *,
    hardware: bool = True,
    probe: Probe = probe_encoder,
    threads: int = 0,
) -> EncoderPlan:
    """The plan for a deliverable of a plate.

    `hardware` False leaves hardware encoders out; `probe` proves them; `threads` limits the encoder, 0 for all.
    RecipeError where no encoder can make it.
    """
    deliverable = resolve(deliverable, facts)
    video = facts.video
    source_format = "gray" if deliverable.source is Source.MASK else planar_format(video.sample_format).name
    choice, size, pad, why = _choose(deliverable, source_format, video, hardware, probe)
    sample_format = _sample_format(deliverable, choice, source_format)
    colour = _colour(deliverable, choice, video, sample_format)
    field_order = video.field_order if size[1] - pad[1] == video.height else "progressive"
    changes = _changes(deliverable, choice, source_format, sample_format, pad, video, colour)
    rate = encoder_rate(video)
    container = chunk_container(choice.encoder, video.time_base)
    return EncoderPlan(
        deliverable=deliverable.name,
        version=deliverable.version,
        source=deliverable.source,
        encoder=choice.encoder,
        hardware=choice.hardware,
        lossless=deliverable.lossless and not lost(source_format, sample_format),
        options=_options(deliverable, choice, sample_format, colour, field_order, facts, rate, size, threads),
        source_format=source_format,
        sample_format=sample_format,
        source_width=video.width,
        source_height=video.height,
        width=size[0],
        height=size[1],
        pad_right=pad[0],
        pad_bottom=pad[1],
        filters=_filters(deliverable, choice, video, source_format, sample_format, colour, size, pad, field_order),
        burn_in=deliverable.burn_in,
        colour=colour,
        sample_aspect_ratio=_aspect(video, size, pad),
        field_order=field_order,
        rate=rate,
        container=deliverable.container,
        suffix=deliverable.suffix,
        tag=_TAGS.get(choice.formats[sample_format].get("profile", ""), deliverable.tag),
        carries_tracks=deliverable.carries_tracks,
        chunk_container=container,
        chunk_suffix=f".{container}",
        why=tuple(why),
        changes=tuple(changes),
    )


def encoder_rate(video: VideoFacts) -> Fraction:
    """The frame rate that rate control and headers are told; 25 where the plate does not know."""
    for rate in (video.average_rate, video.nominal_rate):
        if rate is not None and _SLOWEST <= rate <= _FASTEST:
            return rate.limit_denominator(1001)
    return _DEFAULT_RATE


def _choose(
    deliverable: Deliverable, source: str, video: VideoFacts, hardware: bool, probe: Probe
) -> tuple[EncoderChoice, tuple[int, int], tuple[int, int], list[str]]:
    why: list[str] = []
    for choice in deliverable.encoders:
        sample_format = _sample_format(deliverable, choice, source)
        size, pad = coded_size(choice, sample_format, *_scaled(deliverable, video))
        if not choice.hardware:
            return choice, size, pad, [*why, f"{choice.encoder} on the CPU makes it."]
        if not hardware:
            why.append(f"{choice.encoder} was not wanted.")
            continue
        reason = probe(choice, sample_format, *size)
        if reason is None:
            return choice, size, pad, [*why, f"{choice.encoder} encoded a frame in the probe, so it is used."]
        why.append(f"{choice.encoder} does not work here: {reason.rstrip('.')}.")
    raise RecipeError(
        "No encoder on this machine can make it.",
        where=f"deliverable {deliverable.name}",
        do="Choose another deliverable. " + " ".join(why),
    )


def _sample_format(deliverable: Deliverable, choice: EncoderChoice, source: str) -> str:
    if deliverable.source is Source.FACE:
        return next(name for name in choice.formats if make_of(name).alpha)
    return closest(source, choice.formats)


def _scaled(deliverable: Deliverable, video: VideoFacts) -> tuple[int, int]:
    """The size before padding; shrunk pictures get even sides, so that they need none."""
    if deliverable.max_height is None or video.height <= deliverable.max_height:
        return video.width, video.height
    half = round(Fraction(video.width * deliverable.max_height, video.height * 2))
    return max(2, half * 2), deliverable.max_height


Size = tuple[int, int]


def coded_size(choice: EncoderChoice, sample_format: str, width: int, height: int) -> tuple[Size, Size]:
    """(width, height) as encoded and how much of it is padding: what the chroma and the encoder's least size need."""
    # FFV1 codes subsampled pictures of odd sizes; the others want whole chroma samples.
    shift_x, shift_y = (0, 0) if choice.encoder == "ffv1" else chroma_shifts(sample_format)
    across = -(-max(width, choice.least[0]) >> shift_x) << shift_x
    down = -(-max(height, choice.least[1]) >> shift_y) << shift_y
    return (across, down), (across - width, down - height)


def _aspect(video: VideoFacts, size: tuple[int, int], pad: tuple[int, int]) -> Fraction:
    shape = Fraction(video.width * (size[1] - pad[1]), video.height * (size[0] - pad[0]))
    return (video.sample_aspect_ratio * shape).limit_denominator(255) if shape != 1 else video.sample_aspect_ratio


def _colour(deliverable: Deliverable, choice: EncoderChoice, video: VideoFacts, sample_format: str) -> ColourFacts:
    plate = video.colour
    if deliverable.source is Source.MASK:
        return ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location="left")
    source, target = make_of(video.sample_format), make_of(sample_format)
    update: dict[str, str] = {}
    if source.family == "rgb" and target.family != "rgb":
        update = {"matrix": "bt709", "range": "tv"}
    if source.family != "rgb" and target.family == "rgb":
        update = {"matrix": "gbr", "range": "pc"}
    if not choice.full_range and target.family != "rgb":
        update["range"] = "tv" if _range(video) == "pc" else update.get("range", plate.range)
    subsampled = target.family == "yuv" and (target.shift_x or target.shift_y)
    if subsampled and not (source.shift_x or source.shift_y):
        update["chroma_location"] = "left"
    if not subsampled:
        update["chroma_location"] = "unknown"
    if plate.range == "unknown" and "range" not in update and is_full_range_format(video.sample_format):
        update["range"] = "pc"
    return plate.model_copy(update=update)


def _range(video: VideoFacts) -> str:
    """ "tv" or "pc": how the plate's samples are to be read."""
    if video.colour.range in ("tv", "pc"):
        return video.colour.range
    return "pc" if is_full_range_format(video.sample_format) or make_of(video.sample_format).family == "rgb" else "tv"


_SCALE_MATRICES = {
    "bt709": "bt709",
    "fcc": "fcc",
    "bt470bg": "bt470",
    "smpte170m": "smpte170m",
    "smpte240m": "smpte240m",
    "bt2020nc": "bt2020",
    "bt2020c": "bt2020",
}


def _filters(
    deliverable: Deliverable,
    choice: EncoderChoice,
    video: VideoFacts,
    source_format: str,
    sample_format: str,
    colour: ColourFacts,
    size: tuple[int, int],
    pad: tuple[int, int],
    field_order: str,
) -> tuple[tuple[str, str], ...]:
    filters: list[tuple[str, str]] = []
    picture = size[0] - pad[0], size[1] - pad[1]
    from_range = "pc" if deliverable.source is Source.MASK else _range(video)
    to_range = colour.range if colour.range in ("tv", "pc") else from_range
    resized = picture != (video.width, video.height)
    if source_format != sample_format or from_range != to_range or resized:
        matrix = _SCALE_MATRICES.get(video.colour.matrix, "bt709")
        target = _SCALE_MATRICES.get(colour.matrix, "bt709") if colour.matrix != video.colour.matrix else matrix
        arguments = [f"w={picture[0]}:h={picture[1]}"] if resized else []
        arguments += [f"in_color_matrix={matrix}:out_color_matrix={target}:in_range={from_range}:out_range={to_range}"]
        arguments += ["interl=1"] if field_order not in ("progressive", "unknown") else []
        arguments += ["flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"]
        filters += [("scale", ":".join(arguments)), ("format", sample_format)]
    if choice.interlaced and field_order in _FIRST_FIELD:
        filters.append(("setfield", _FIRST_FIELD[field_order]))
    return tuple(filters)


# The second letter of FFmpeg's field order is the field that is shown first.
_FIRST_FIELD = {"tt": "tff", "bt": "tff", "bb": "bff", "tb": "bff"}


def _options(
    deliverable: Deliverable,
    choice: EncoderChoice,
    sample_format: str,
    colour: ColourFacts,
    field_order: str,
    facts: PlateFacts,
    rate: Fraction,
    size: tuple[int, int],
    threads: int,
) -> dict[str, str]:
    options = choice.options | choice.formats[sample_format] | {"threads": str(threads)}
    if choice.encoder not in _INTRA_ONLY:
        options["g"] = str(min(_LONGEST_GOP, max(1, round(rate * deliverable.key_seconds))))
    if choice.encoder == "ffv1":
        options["slices"] = str(_slices(*size))
    if choice.interlaced and field_order in _FIRST_FIELD:
        options["flags"] = "+ilme+ildct"
    params = choice.params | (_hdr_params(choice, facts.video) if deliverable.source is Source.PICTURE else {})
    if choice.params_key and params:
        options[choice.params_key] = ":".join(f"{key}={value}" for key, value in params.items())
    options |= {key: str(number) for key, number in colour_numbers(colour).items()}
    return options


def colour_numbers(colour: ColourFacts) -> dict[str, int]:
    """FFmpeg's options for the colour tags, with H.273's numbers."""

    def number(table: dict[int, str], name: str, unknown: int) -> int:
        return next((n for n, known in table.items() if known == name), unknown)

    located = colour.chroma_location in names.CHROMA_LOCATIONS
    return {
        "color_primaries": number(names.PRIMARIES, colour.primaries, 2),
        "color_trc": number(names.TRANSFERS, colour.transfer, 2),
        "colorspace": number(names.MATRICES, colour.matrix, 2),
        "color_range": number(names.RANGES, colour.range, 0),
        "chroma_sample_location": names.CHROMA_LOCATIONS.index(colour.chroma_location) + 1 if located else 0,
    }


def _slices(width: int, height: int) -> int:
    """FFV1 slices, which are its threads: none for pictures that are too small to be cut."""
    if width < 64 or height < 64:
        return 1
    return 4 if width * height <= 1280 * 720 else 16


def _hdr_params(choice: EncoderChoice, video: VideoFacts) -> dict[str, str]:
    display, light = hdr.mastering_display(video.side_data), hdr.content_light(video.side_data)
    params: dict[str, str] = {}
    if choice.params_key == "x265-params":
        params |= {"master-display": display} if display else {}
        params |= {"max-cll": f"{light[0]},{light[1]}"} if light else {}
        params |= {"hdr10": "1"} if display or light else {}
    elif choice.params_key == "x264-params":
        params |= {"mastering-display": display} if display else {}
        params |= {"cll": f"{light[0]},{light[1]}"} if light else {}
    elif choice.params_key == "svtav1-params":
        decimal = hdr.mastering_display_decimal(video.side_data)
        params |= {"mastering-display": decimal} if decimal else {}
        params |= {"content-light": f"{light[0]},{light[1]}"} if light else {}
    return params


def _changes(
    deliverable: Deliverable,
    choice: EncoderChoice,
    source_format: str,
    sample_format: str,
    pad: tuple[int, int],
    video: VideoFacts,
    colour: ColourFacts,
) -> list[str]:
    words = [f"{source_format} becomes {sample_format}: {what}." for what in lost(source_format, sample_format)]
    if any(pad):
        words.append(f"The picture is padded by what repeats its edge: columns {pad[0]}, rows {pad[1]}.")
    if deliverable.source is Source.PICTURE and _range(video) == "pc" and colour.range == "tv":
        words.append("Full range becomes limited range.")
    if video.field_order in _FIRST_FIELD and not choice.interlaced and not deliverable.lossless:
        words.append("Fields are coded as whole frames; the field order is kept as a tag of the container.")
    if deliverable.max_height and video.height > deliverable.max_height:
        words.append(f"The picture is shrunk to {deliverable.max_height} lines.")
    return words
