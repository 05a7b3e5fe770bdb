"""Judging of a finished deliverable by the truth of its plate."""

from __future__ import annotations

from pathlib import Path

import cv2

from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.resources import resource
from farm.sample import IDENTITIES, Truth, portrait_picture
from farm.sample.evaluate import Judge, PersonScore, read_pictures


def judged(out: Path, truth: Truth) -> dict[str, PersonScore]:
    """Scores of every other frame of `out`, where the first person was to become the second one."""
    portrait = cv2.imread(str(portrait_picture(IDENTITIES[1])))
    assert portrait is not None
    with Models(Catalogue.load(resource("models")), threads=2) as models:
        judge = Judge(models, truth, {IDENTITIES[0]: portrait})
        for frame, (_, picture) in enumerate(read_pictures(out)):
            if frame % 2 == 0:
                judge.see(frame, picture)
        return judge.report()
