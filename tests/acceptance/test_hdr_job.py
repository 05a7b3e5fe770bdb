"""HDR plates through whole jobs: another face, the plate's own depth, light and metadata, and nothing else touched."""

from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest

from farm.faces.detect import Detector
from farm.faces.embed import SAME_PERSON, Embedder
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.media.facts import ColourFacts
from farm.media.hdr import content_light, mastering_display
from farm.media.preview import upright_preview
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.provenance.label import Label
from farm.resources import resource
from farm.sample import IDENTITIES, Sample, Truth, portrait_picture
from farm.sample.evaluate import changed_outside, find_person, may_change, read_pictures
from tests.acceptance.conftest import Farm
from tests.hdr import HLG, PQ, graded
from tests.media_tools import ffmpeg

FRAMES = 18
DISPLAY = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"


def hdr_plate(sample: Sample, colour: ColourFacts, path: Path) -> Path:
    """The first frames of the sample in HEVC, 10 bits; PQ with static metadata."""
    frames = [graded(picture, colour) for _, picture in islice(read_pictures(sample.plate), FRAMES)]
    height, width = frames[0].planes[0].shape
    tags = f"colorprim=bt2020:transfer={colour.transfer}:colormatrix=bt2020nc:range=limited:chromaloc=2"
    more = f":hdr10=1:max-cll=1000,400:master-display={DISPLAY}" if colour.transfer == "smpte2084" else ""
    ffmpeg(
        *["-f", "rawvideo", "-pix_fmt", "yuv420p10le", "-s", f"{width}x{height}", "-r", "24", "-i", "pipe:0"],
        *["-c:v", "libx265", "-preset", "ultrafast", "-crf", "8", "-tag:v", "hvc1", "-color_primaries", "bt2020"],
        *["-color_trc", colour.transfer, "-colorspace", "bt2020nc", "-color_range", "tv"],
        *["-x265-params", f"log-level=error:pools=2:frame-threads=1:repeat-headers=1:{tags}{more}", str(path)],
        stdin=b"".join(plane.tobytes() for frame in frames for plane in frame.planes),
    )
    return path


@pytest.mark.parametrize("colour", [PQ, HLG], ids=["pq", "hlg"])
def test_an_hdr_job_changes_the_face_and_nothing_else(
    farm: Farm, sample: Sample, tmp_path: Path, colour: ColourFacts
) -> None:
    plate = hdr_plate(sample, colour, tmp_path / "plate.mp4")
    job = farm.finished(farm.submit(plate, chunk_seconds=60))
    out = farm.download(job, "ffv1", tmp_path / "out.mkv")

    before, after = probe(plate), probe(out)
    assert before.video.colour.transfer == colour.transfer
    assert after.video.colour == before.video.colour
    assert (after.video.sample_format, after.video.bit_depth) == ("yuv420p10le", 10)
    assert mastering_display(after.video.side_data) == mastering_display(before.video.side_data)
    assert content_light(after.video.side_data) == content_light(before.video.side_data)
    assert (mastering_display(before.video.side_data) is not None) == (colour is PQ)

    truth, label = Truth.load(sample.truth), Label(before.video).box
    size = (before.video.width, before.video.height)
    pairs = list(zip(read_plate(plate, before), read_plate(out, after), strict=True))
    assert len(pairs) == FRAMES
    for old, new in pairs:
        allowed = may_change(truth, old.index, [IDENTITIES[0]], size, also=[label])
        assert changed_outside(old, new, allowed) == 0, f"frame {old.index} was changed elsewhere"

    portrait = cv2.imread(str(portrait_picture(IDENTITIES[1])))
    assert portrait is not None
    with Models(Catalogue.load(resource("models")), threads=2) as models:
        detector, embedder = Detector(models.load("yunet")), Embedder(models.load("sface"))
        wanted = embedder(portrait, detector(portrait)[0].five)
        for _, new in pairs[:: FRAMES // 3]:
            shown, _ = upright_preview(new, after, 1280)
            face = find_person(truth, new.index, truth.person(IDENTITIES[0]), detector(shown))
            assert face is not None
            assert float(embedder(np.ascontiguousarray(shown), face.five) @ wanted) > SAME_PERSON
