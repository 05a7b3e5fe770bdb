from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.merger.workshop import Workshop
from tests.media_factory import MediaFactory


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaFactory:
    """Synthetic clips, each made once per session."""
    return MediaFactory(tmp_path_factory.mktemp("merger-media"))


@pytest.fixture
def workshop(tmp_path: Path, media: MediaFactory) -> Workshop:
    return Workshop(tmp_path, media)
