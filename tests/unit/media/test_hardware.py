"""Which hardware encoders are said to work."""

from farm.media.deliverables import EncoderChoice
from farm.media.hardware import hardware_encoders


def test_an_encoder_counts_only_when_each_of_its_formats_works() -> None:
    asked: set[tuple[str, str]] = set()

    def probe(choice: EncoderChoice, sample_format: str, width: int, height: int) -> str | None:
        asked.add((choice.encoder, sample_format))
        return "no card" if sample_format == "p010le" else None

    assert hardware_encoders(probe) == ("h264_nvenc",)
    assert {encoder for encoder, _ in asked} == {"h264_nvenc", "hevc_nvenc", "av1_nvenc"}


def test_without_a_card_there_is_none() -> None:
    assert hardware_encoders(lambda *_: "no card") == ()
