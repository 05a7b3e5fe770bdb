from __future__ import annotations

import pytest

from tests.media_factory import MediaFactory


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaFactory:
    """Synthetic clips, each made once per session."""
    return MediaFactory(tmp_path_factory.mktemp("media"))
