"""What processes of this machine left behind when they died: their attempts' logs, and what these say of the end."""

from __future__ import annotations

from functools import partial

import structlog

from farm.db.engine import Sessions, transact
from farm.errors import InfrastructureError
from farm.jobs.fail import note_cause
from farm.worker.attempt_log import AttemptLogs

log = structlog.get_logger(__name__)


class Leftovers:
    """Sends the logs of dead processes to the store, and their last words into the attempts' records."""

    def __init__(self, sessions: Sessions, logs: AttemptLogs) -> None:
        self._sessions = sessions
        self._logs = logs
        self._words: dict[str, str] = {}

    def send(self) -> None:
        """A database that is away hears it with the next call."""
        self._words |= {key.attempt_id: words for key, words in self._logs.left_behind() if words}
        for attempt_id, words in list(self._words.items()):
            try:
                transact(self._sessions, partial(note_cause, attempt_id=attempt_id, cause=words))
            except InfrastructureError as error:
                log.warning("the database is away", error=str(error))
                return
            del self._words[attempt_id]
