"""`farm live`: one stream on this machine, without a farm."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import click
import structlog

from farm.cli.files import check_input, sha256_of
from farm.cli.output import print_json_line, talk
from farm.errors import InputError
from farm.faces.footage import pictures_and_clips
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.mapping import Mapping
from farm.faces.neural_identity import with_sources
from farm.faces.pipeline import FacePipeline
from farm.media import live_endpoint, stamp
from farm.media.facts import PlateFacts
from farm.media.live_input import LiveInput
from farm.media.live_output import LiveOutput
from farm.provenance.consent import Consent, ConsentPolicy, admit
from farm.provenance.label import Label
from farm.provenance.marks import aigc_mark
from farm.recipe import Recipe, preset
from farm.settings import Settings, load_settings
from farm.worker.live import LiveLine, LiveReport
from farm.worker.toolbox import Toolbox

log = structlog.get_logger(__name__)

_WHO = "live"


@click.command()
@click.argument("source")
@click.argument("sink")
@click.option(
    "--identity",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FACE.jpg|CLIP.mp4",
    help="Picture or clip of the person put in; again for more of the same person.",
)
@click.option("--recipe", "recipe_name", default="swap", show_default=True, help="Recipe; none that enlarges frames.")
@click.option("--grant", type=click.Path(path_type=Path), help="The signed consent of the person shown.")
@click.option("--clean", is_flag=True, help="Without the visible label; only where a grant allows it.")
@click.option(
    "--budget-ms",
    type=click.IntRange(20, 10_000),
    default=400,
    show_default=True,
    help="Delay from a picture's arrival until it goes to the encoder, above which less is looked at and shown.",
)
@click.option(
    "--after",
    type=click.IntRange(0, 8),
    default=2,
    show_default=True,
    help="Pictures waited for before one is shown: more is smoother and later.",
)
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so long.")
@click.option("--listen", is_flag=True, help="Wait at the rtmp address of SOURCE for somebody to send.")
@click.option("--stamp", "stamped", is_flag=True, help="Burn the time of arrival into the picture, to measure delays.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON a second, and one at the end.")
def live(
    source: str,
    sink: str,
    files: tuple[Path, ...],
    recipe_name: str,
    grant: Path | None,
    clean: bool,
    budget_ms: int,
    after: int,
    seconds: float | None,
    listen: bool,
    stamped: bool,
    as_json: bool,
) -> None:
    """Replace faces in a live stream from SOURCE to SINK.

    SOURCE is a file (played at its own pace), a camera (/dev/video0), or an rtsp or rtmp address; SINK a file, or an
    rtmp, srt or https (WebRTC by WHIP) address. Every face becomes the identity. Sound goes along.
    """
    settings, recipe = load_settings(), preset(recipe_name)
    near, far = live_endpoint.source(source), live_endpoint.sink(sink)
    consent = _admitted(settings, recipe, grant, clean=clean)
    _check(recipe, files)
    toolbox = Toolbox(settings, None)
    with ExitStack() as opened:
        opened.callback(toolbox.close)
        identities = _identities(recipe, files, toolbox)
        arriving = opened.enter_context(LiveInput(near, listen=listen))
        facts = arriving.facts
        if stamped and not stamp.fits(facts.video.width, facts.video.height):
            raise InputError("The picture is too small for a stamp.", where="--stamp", do="Leave it out.")
        marks = {"AIGC": aigc_mark(settings.producer, _WHO)} if recipe.changes_faces else {}
        leaving = opened.enter_context(
            LiveOutput(far, facts.video, rate=arriving.rate, audio=arriving.audio, metadata=marks)
        )
        line = LiveLine(
            arriving,
            leaving,
            _pipeline(recipe, identities, toolbox, facts),
            marks=_label(settings, recipe, consent, facts),
            after=after,
            budget=budget_ms / 1000,
            stamped=stamped,
            tell=lambda report: _tell(report, as_json=as_json),
        )
        try:
            report = line.run(seconds=seconds)
        except KeyboardInterrupt:
            report = line.stopped()
    _tell(report, as_json=as_json)


def _admitted(settings: Settings, recipe: Recipe, grant: Path | None, *, clean: bool) -> Consent:
    """The consent under which the stream is changed, by the same rules as a job's, and noted in the log."""
    consent = Consent(clean_master=clean)
    if grant is not None:
        digest = sha256_of(check_input(grant, "grant"))
        consent = Consent(level="A1", grant_sha256=digest, clean_master=clean)
    consent = admit(consent, ConsentPolicy(settings.consent_policy), changes_faces=recipe.changes_faces)
    log.info("live stream admitted", level=consent.level, grant=consent.grant_sha256, recipe=recipe.digest())
    return consent


def _check(recipe: Recipe, files: tuple[Path, ...]) -> None:
    if recipe.scale != 1:
        raise InputError("A live stream keeps its size.", where="--recipe", do="Choose a recipe that does not enlarge.")
    if recipe.puts_in_faces and not files:
        raise InputError(
            f"The recipe {recipe.name!r} puts in a face and none was given.",
            where="--identity",
            do="Give a picture of the person: --identity FACE.jpg.",
        )


def _identities(recipe: Recipe, files: tuple[Path, ...], toolbox: Toolbox) -> dict[str, PreparedIdentity]:
    if not recipe.puts_in_faces:
        return {}
    pictures, clips = pictures_and_clips((check_input(path, "picture"), str(path)) for path in files)
    models = toolbox.models()
    return {_WHO: with_sources(prepare_identity(pictures, models, clips=clips), recipe, models, toolbox.sources)}


def _pipeline(
    recipe: Recipe, identities: dict[str, PreparedIdentity], toolbox: Toolbox, facts: PlateFacts
) -> FacePipeline:
    mapping = Mapping(everyone=_WHO if identities else None)
    return FacePipeline(recipe, mapping, identities, toolbox.models(), facts, threads=toolbox.threads)


def _label(settings: Settings, recipe: Recipe, consent: Consent, facts: PlateFacts) -> Label | None:
    clean = consent.clean_master and settings.label_policy == "by_grant"
    return Label(facts.video) if recipe.changes_faces and not clean else None


def _tell(report: LiveReport, *, as_json: bool) -> None:
    if as_json:
        print_json_line(asdict(report))
        return
    delay = f", delay {report.delay_ms:.0f} ms" if report.delay_ms is not None else ""
    talk.print(
        f"{report.shown} of {report.received} pictures shown, {report.swapped} with a new face, {report.stale} stale, "
        f"{report.left_out} left out, {report.out_of_time} out of time{delay}"
    )
