"""`farm probe`: what a plate is, before a job is made of it."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.files import check_input
from farm.cli.output import bytes_in_words, print_facts, print_json, seconds_in_words
from farm.errors import InputError
from farm.media.facts import PlateFacts, StreamFacts


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print all facts as JSON.")
def probe(file: Path, as_json: bool) -> None:
    """Say what FILE is: streams, colour, clock, and what a person should know."""
    facts = probe_named(file)
    if as_json:
        print_json(facts)
    else:
        print_facts(_pairs(facts))


def probe_named(file: Path) -> PlateFacts:
    """The facts of a file; errors call it by its path."""
    from farm.media.probe import probe as probe_file

    check_input(file, "file")
    try:
        return probe_file(file)
    except InputError as error:
        raise type(error)(error.what, where=str(file), do=error.do) from error


def _pairs(facts: PlateFacts) -> list[tuple[str, str]]:
    video, colour = facts.video, facts.video.colour
    rate = f"{float(video.average_rate):.3f} frames/s" if video.average_rate else "no rate"
    samples = f"{video.sample_format} ({video.bit_depth} bit)"
    return [
        ("container", f"{facts.container}, {bytes_in_words(facts.size)}"),
        ("duration", seconds_in_words(float(facts.duration)) if facts.duration is not None else "unknown"),
        (
            "picture",
            f"{video.codec} {video.width}×{video.height} {samples}, {rate}, time base {video.time_base}",
        ),
        ("frames", str(facts.frames) if facts.frames else "unknown until planned"),
        ("rotation", f"{video.rotation}°" if video.rotation else ""),
        ("colour", f"{colour.primaries} / {colour.transfer} / {colour.matrix}, range {colour.range}"),
        *((stream.kind, _stream(stream)) for stream in facts.streams),
        ("chapters", str(facts.chapters) if facts.chapters else ""),
        *((f"warning {warning.code}", warning.text) for warning in facts.warnings),
    ]


def _stream(stream: StreamFacts) -> str:
    return " ".join(part for part in (f"#{stream.index}", stream.codec, stream.language or "") if part)
