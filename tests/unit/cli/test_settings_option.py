"""--set KIND.NAME=VALUE of `farm render` and `farm submit`."""

from pathlib import Path

import pytest

from farm.cli.ask import Asked
from farm.errors import InputError


def asked(*changes: str) -> Asked:
    return Asked(plate=Path("plate.mp4"), identities=(), recipe="swap", changes=changes)


def test_values_are_json_and_words_are_words() -> None:
    given = asked("swap.boost=2", 'swap.mask={"areas": ["face"]}', "restore.scope=frame", "restore.blend=0.5")
    assert given.settings == {
        "swap": {"boost": 2, "mask": {"areas": ["face"]}},
        "restore": {"scope": "frame", "blend": 0.5},
    }
    assert given.request(("h264",)).settings == given.settings
    assert asked().settings == {}


@pytest.mark.parametrize("wrong", ["boost=2", "swap.boost", ".boost=2", "swap.=2", "=2"])
def test_what_is_no_setting_is_named(wrong: str) -> None:
    with pytest.raises(InputError, match="is no setting"):
        _ = asked(wrong).settings
