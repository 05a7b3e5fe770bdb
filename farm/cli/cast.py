"""`farm cast`, `cast-merge`, `cast-split`, `map`, `report`: who is in a plate, who they become, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli.connect import running_farm
from farm.cli.files import check_input, check_output, replacing
from farm.cli.output import json_option, print_found, print_json, print_table, talk
from farm.cli.probe import probe_named
from farm.cli.who import mapping_request, saying_who
from farm.errors import InputError
from farm.words import counted

if TYPE_CHECKING:
    from farm.faces.cast import FaceObservation
    from farm.faces.views import Analyst
    from farm.media.facts import PlateFacts
    from farm.media.timeline import Timeline


@click.command()
@click.argument("plate", type=click.Path(path_type=Path), required=False)
@click.option("--job", "job_id", help="Show the cast of this job instead, as somebody may have corrected it.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="SHEET.png",
    help="The contact sheet; the JSON goes beside it. By default PLATE.cast.png in this folder.",
)  # fmt: skip
@json_option
def cast(plate: Path | None, job_id: str | None, output: Path | None, as_json: bool) -> None:
    """Find the people of PLATE: a contact sheet (PNG) and the same as JSON, with ids that --map takes.

    A job on the same plate finds the same people under the same ids.
    """
    if (plate is None) == (job_id is None):
        raise InputError("It was not said whose cast is wanted.", where="cast", do="Give a PLATE, or --job ID.")
    sheet = output or Path(f"{job_id or (plate.stem if plate else '')}.cast.png")
    if sheet.suffix.lower() != ".png":
        raise InputError("A contact sheet is a .png file.", where=str(sheet), do="Name it *.png.")
    listing = sheet.with_suffix(".json")
    for path in (sheet, listing):
        check_output(path, (plate,) if plate else ())
    with replacing(sheet) as picture, replacing(listing) as text:
        found, png = _of_plate(plate) if plate else _of_job(str(job_id))
        picture.write(png)
        text.write(_as_json(found))
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "on screen", "first", "last", "sightings", "appearances"),
        [
            (m["id"], f"{m['screen_seconds']:.1f} s", m["first"], m["last"], str(m["sightings"]), _numbers(m))
            for m in found["members"]
        ],
    )
    talk.print(f"{sheet}\n{listing}", style="dim")


@click.command()
@click.argument("job_id")
@click.argument("into")
@click.argument("others", nargs=-1, required=True)
@json_option
def cast_merge(job_id: str, into: str, others: tuple[str, ...], as_json: bool) -> None:
    """Say that OTHERS are the same person as INTO, in a job that waits for its mapping."""
    _edit(job_id, "merge", {"into": into, "others": others}, as_json=as_json)


@click.command()
@click.argument("job_id")
@click.argument("member")
@click.argument("appearances", nargs=-1, required=True, type=click.IntRange(1))
@json_option
def cast_split(job_id: str, member: str, appearances: tuple[int, ...], as_json: bool) -> None:
    """Say that APPEARANCES (numbers on the contact sheet) of MEMBER are somebody else."""
    _edit(job_id, "split", {"member": member, "appearances": appearances}, as_json=as_json)


@click.command(name="map")
@click.argument("job_id")
@click.option("--replace", metavar="LABEL=NAME", help="Replace the person of the pictures LABEL by the identity NAME.")
@saying_who
@json_option
def choose(
    job_id: str,
    replace: str | None,
    mapping: tuple[str, ...],
    threshold: float | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
) -> None:
    """Decide who becomes whom, for a job that waits for it (`farm submit --choose`)."""
    with running_farm() as client:
        labels = client.operate("GET", f"/jobs/{job_id}/cast")["identities"]
        label, _, name = (replace or "").partition("=")
        if replace and (mapping or not (label and name)):
            raise InputError(
                "It was not said who becomes whom.", where="--replace", do="Give LABEL=NAME, and no --map."
            )
        request = mapping_request(
            mapping or (() if replace else ("lead",)),
            references={label: name} if replace else None,
            threshold=threshold,
            include=include,
            exclude=exclude,
            first=labels[0] if labels else "",
        )
        found = client.choose_mapping(job_id, request or {})
    print_found(found, found.state, as_json=as_json)


@click.command()
@click.argument("job_id")
@json_option
def report(job_id: str, as_json: bool) -> None:
    """Say what became of each person's face in a job: frames found, changed and kept, why, and at which times."""
    with running_farm() as client:
        found = client.operate("GET", f"/jobs/{job_id}/report")
    if as_json:
        print_json(found)
        return
    rows = [(f"{counted(found['frames'], 'frame')}", f"{found['without_face']} without a face", "", "")]
    rows += [("", "no face", s["start"], s["end"]) for s in found["empty"]]
    rows += [("", "left, not restored as a whole", s["start"], s["end"]) for s in found["unrestored_in"]]
    rows += [("", "made again in full precision", s["start"], s["end"]) for s in found["redone"]]
    for person in found["people"]:
        became = f" → {person['identity']}" if person["identity"] else ""
        name = f"{person['person'] or 'somebody else'}{became}"
        rows += [(name, f"{person['found']} found, {person['changed']} changed, {person['kept']} kept", "", "")]
        rows += [("", span["outcome"], span["start"], span["end"]) for span in person["spans"]]
    for identity in found["identities"]:
        rows += [(identity["label"], f"left out: {label}", "", "") for label in identity["left_out"]]
    print_table(("who", "what", "from", "to"), rows)


def _edit(job_id: str, what: str, body: dict[str, Any], *, as_json: bool) -> None:
    with running_farm() as client:
        found = client.operate("POST", f"/jobs/{job_id}/cast/{what}", body)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "on screen", "first", "last", "appearances"),
        [(m["id"], f"{m['screen_seconds']:.1f} s", m["first"], m["last"], _numbers(m)) for m in found["cast"]],
    )


def _of_job(job_id: str) -> tuple[dict[str, Any], bytes]:
    with running_farm() as client:
        return client.operate("GET", f"/jobs/{job_id}/cast"), client.picture(f"/jobs/{job_id}/cast/sheet.png")


def _of_plate(plate: Path) -> tuple[dict[str, Any], bytes]:
    from farm.faces.cast import GAP_SAMPLES, build_cast, sampled
    from farm.faces.cast_sheet import contact_sheet, describe_members
    from farm.faces.views import Analyst
    from farm.inference.catalogue import Catalogue
    from farm.inference.session import Models
    from farm.media.scan import scan_timeline

    facts = probe_named(check_input(plate, "plate"))
    timeline = scan_timeline(plate, facts)
    samples = sampled(len(timeline), timeline.seconds(0, len(timeline)))
    with Models(Catalogue.load()) as models, ThreadPoolExecutor() as pool:
        seen = _seen(plate, facts, timeline, samples, Analyst(models, facts, hands=False), pool)
        found = build_cast(seen, frames_seen=len(samples), gap=GAP_SAMPLES * samples.step)
    seconds = _clock(timeline)
    listing = {"frames_seen": found.frames_seen, "members": describe_members(found, seconds)}
    return listing, contact_sheet(found, seconds)


def _seen(
    plate: Path, facts: PlateFacts, timeline: Timeline, samples: range, analyst: Analyst, pool: ThreadPoolExecutor
) -> Iterator[FaceObservation]:
    from farm.faces.ahead import ahead
    from farm.faces.cast import observe
    from farm.media.frame import Frame
    from farm.media.reader import read_plate

    def look(frame: Frame) -> list[FaceObservation]:
        end = min(frame.index + samples.step, len(timeline))
        return observe(frame, analyst, seconds=timeline.seconds(frame.index, end))

    frames = (frame for frame in read_plate(plate, facts, timeline) if frame.index in samples)
    for faces in ahead(pool, look, frames, 4):
        yield from faces


def _clock(timeline: Timeline) -> Callable[[int], float]:
    start = int(timeline.pts[0])
    return lambda pts: float((pts - start) * timeline.time_base)


def _numbers(member: dict[str, Any]) -> str:
    return ",".join(str(part["number"]) for part in member["appearances"])


def _as_json(found: dict[str, Any]) -> bytes:
    return (json.dumps(found, indent=2) + "\n").encode()
