"""gunicorn's own lines in the farm's log, and none for each request: the application writes that one."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn.glogging import Logger


class QuietLogger(Logger):  # type: ignore[misc]
    """Hands everything to the handlers that `farm.log.configure` has set."""

    def setup(self, cfg: Any) -> None:
        for own in (self.error_log, self.access_log):
            own.handlers = []
            own.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self.access_log.setLevel(logging.CRITICAL)
