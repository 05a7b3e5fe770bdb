from __future__ import annotations

from fractions import Fraction

import pytest

from farm.errors import NotFoundError, RecipeError
from farm.media.deliverables import PRESETS, Deliverable, EncoderChoice, Source, deliverable, names
from farm.media.encoder_probe import probe_encoder
from farm.media.encoders import EncoderPlan, chunk_encoder, encoder_rate
from farm.media.facts import ColourFacts
from tests.unit.media_write.facts import LIGHT, MASTERING, plate


def works(*_: object) -> None:
    return None


def no_driver(*_: object) -> str:
    return "Cannot load libcuda.so.1"


def plan_of(name: str, **video: object) -> EncoderPlan:
    return chunk_encoder(deliverable(name), plate(**video), hardware=False)


def test_hardware_is_used_where_the_probe_proves_it_and_the_plan_says_so() -> None:
    plan = chunk_encoder(deliverable("h264"), plate(), probe=works)
    assert (plan.encoder, plan.hardware) == ("h264_nvenc", True)
    assert "probe" in plan.why[0]
    assert plan.options["forced-idr"] == "1"


def test_the_reason_why_hardware_is_not_used_is_kept() -> None:
    plan = chunk_encoder(deliverable("h264"), plate(), probe=no_driver)
    assert (plan.encoder, plan.hardware) == ("libx264", False)
    assert "libcuda" in plan.why[0]


def test_a_deliverable_that_no_encoder_makes_is_refused_with_the_reasons() -> None:
    only = PRESETS["h264"].model_copy(update={"encoders": PRESETS["h264"].encoders[:1]})
    with pytest.raises(RecipeError, match="libcuda"):
        chunk_encoder(only, plate(), probe=no_driver)


def test_the_probe_is_given_the_pictures_own_format_and_size() -> None:
    seen: list[tuple[str, str, int, int]] = []

    def probe(choice: EncoderChoice, sample_format: str, width: int, height: int) -> str:
        seen.append((choice.encoder, sample_format, width, height))
        return "no"

    chunk_encoder(deliverable("hevc10"), plate(width=321, height=241), probe=probe)
    assert seen == [("hevc_nvenc", "p010le", 322, 242)]


def test_a_real_probe_tells_a_working_encoder_from_a_broken_one() -> None:
    choice = PRESETS["h264"].encoders[-1]
    assert probe_encoder(choice, "yuv420p", 64, 36) is None
    assert probe_encoder(choice, "yuv420p", 63, 35) is not None


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("h264", "yuv422p10le", "yuv420p"),
        ("h264", "gbrp", "yuv420p"),
        ("ffv1", "yuv422p10le", "yuv422p10le"),
        ("ffv1", "gbrp", "bgr0"),
        ("ffv1", "gbrap", "bgra"),
        ("ffv1", "gray10le", "gray10le"),
        ("ffv1", "yuva444p12le", "yuva444p12le"),
        ("hevc10", "yuv420p", "yuv420p10le"),
        ("prores", "yuv420p", "yuv422p10le"),
        ("prores4444", "yuva444p12le", "yuva444p10le"),
        ("prores4444", "gbrp", "yuv444p10le"),
        ("dnxhr", "yuv420p", "yuv422p"),
        ("dnxhr", "yuv420p10le", "yuv422p10le"),
        ("dnxhr", "yuv444p", "yuv444p10le"),
        ("matte", "yuv444p10le", "yuv422p10le"),
        ("face-only", "yuv420p", "yuva444p10le"),
    ],
)
def test_sample_formats(name: str, source: str, target: str) -> None:
    plan = plan_of(name, sample_format=source)
    assert plan.sample_format == target
    assert plan.filters or plan.source_format == target
    assert plan.lossless == (name == "ffv1")


@pytest.mark.parametrize(
    ("codec", "sample_format", "container", "encoder", "muxer"),
    [
        ("h264", "yuv420p", "mov,mp4,m4a,3gp,3g2,mj2", "libx264", "mp4"),
        ("h264", "yuv422p10le", "matroska,webm", "libx264", "matroska"),
        ("hevc", "yuv420p10le", "mpegts", "libx265", "matroska"),
        ("av1", "yuv420p10le", "matroska,webm", "libsvtav1", "matroska"),
        ("vp9", "yuv420p", "matroska,webm", "libvpx-vp9", "matroska"),
        ("prores", "yuv422p10le", "mov,mp4,m4a,3gp,3g2,mj2", "prores_ks", "mov"),
        ("prores", "yuva444p12le", "mov,mp4,m4a,3gp,3g2,mj2", "prores_ks", "mov"),
        ("dnxhd", "yuv422p", "mxf", "dnxhd", "mov"),
        ("ffv1", "gray16le", "matroska,webm", "ffv1", "matroska"),
        ("gif", "gbrap", "gif", "ffv1", "matroska"),
    ],
)
def test_match_is_the_plates_own_kind(codec: str, sample_format: str, container: str, encoder: str, muxer: str) -> None:
    facts = plate(container=container, codec=codec, sample_format=sample_format)
    plan = chunk_encoder(deliverable("match"), facts, hardware=False)
    assert (plan.encoder, plan.container) == (encoder, muxer)
    assert ("alpha" in " ".join(plan.changes)) is False


def test_hdr10_metadata_goes_into_the_bitstream() -> None:
    hdr = ColourFacts(
        primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv", chroma_location="topleft"
    )
    side_data = {"Mastering display metadata": MASTERING, "Content light level metadata": LIGHT}
    video = {"colour": hdr, "side_data": side_data, "sample_format": "yuv420p10le", "bit_depth": 10}
    x265 = plan_of("hevc10", **video)
    display = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
    assert f"master-display={display}" in x265.options["x265-params"]
    assert "max-cll=1000,400" in x265.options["x265-params"]
    assert (x265.options["color_trc"], x265.options["colorspace"]) == ("16", "9")
    assert "mastering-display=G(0.26500,0.69000)" in plan_of("av1", **video).options["svtav1-params"]
    assert f"mastering-display={display}" in plan_of("h264", **video).options["x264-params"]


def test_full_range_is_kept_where_it_can_be_and_said_where_not() -> None:
    full = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="pc", chroma_location="left")
    assert plan_of("h264", colour=full).options["color_range"] == "2"
    prores = plan_of("prores", colour=full)
    assert prores.options["color_range"] == "1"
    assert "in_range=pc:out_range=tv" in dict(prores.filters)["scale"]
    assert "Full range becomes limited range." in prores.changes


def test_settings_that_make_chunks_join() -> None:
    x264, x265 = plan_of("h264"), plan_of("hevc10")
    assert "open-gop=0" in x264.options["x264-params"]
    assert "open-gop=0" in x265.options["x265-params"]
    assert plan_of("ffv1").options["g"] == "1"
    assert x264.options["g"] == "96"
    assert "crf" in x264.options
    assert not {"b", "maxrate", "bufsize"} & set(x264.options)


@pytest.mark.parametrize(
    ("average", "nominal", "rate"),
    [
        (Fraction(24000, 1001), None, Fraction(24000, 1001)),
        (None, Fraction(50), Fraction(50)),
        (Fraction(240), Fraction(30), Fraction(240)),
        (None, Fraction(90000), Fraction(25)),
        (None, None, Fraction(25)),
    ],
)
def test_the_rate_that_encoders_are_told(average: Fraction | None, nominal: Fraction | None, rate: Fraction) -> None:
    assert encoder_rate(plate(average_rate=average, nominal_rate=nominal).video) == rate


def test_shrunk_pictures_keep_their_shape() -> None:
    plan = plan_of("review", width=1998, height=1080)
    assert (plan.width, plan.height) == (1000, 540)
    shape = Fraction(plan.width, plan.height) * plan.sample_aspect_ratio
    assert abs(shape - Fraction(1998, 1080)) < Fraction(1, 500)


def test_a_plan_survives_json_and_its_digest_ignores_words() -> None:
    plan = plan_of("h264")
    assert EncoderPlan.model_validate_json(plan.model_dump_json()) == plan
    assert plan.model_copy(update={"why": ("another reason",)}).digest() == plan.digest()
    assert plan.model_copy(update={"width": 2}).digest() != plan.digest()


def test_every_preset_is_named_versioned_and_has_a_cpu_encoder() -> None:
    for name in names():
        preset: Deliverable = deliverable(name)
        assert preset.name == name
        assert preset.version >= 1
        assert preset.title
        assert name == "match" or not preset.encoders[-1].hardware
    assert {d.source for d in PRESETS.values()} == set(Source)


def test_an_unknown_deliverable_names_those_there_are() -> None:
    with pytest.raises(NotFoundError, match="ffv1"):
        deliverable("avi")
