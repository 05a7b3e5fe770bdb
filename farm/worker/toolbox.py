"""What a slot keeps warm between tasks: loaded models and prepared identities."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import RLock, Thread

from farm.errors import FarmError
from farm.faces.identity import PreparedIdentity
from farm.faces.neural_source import SourceCache
from farm.inference.deployment import open_deployment
from farm.inference.session import Models
from farm.settings import Settings
from farm.store.base import Store
from farm.worker.card_slot import CardSlot

_MOST_IDENTITIES = 16


class Toolbox:
    """Made once for each Celery child; nothing is loaded before it is asked for. `sources`: of neural swappers.

    The slot's thread uses it, and the one that `warm` starts.

    store: where weights are looked for that another machine pulled; None where there is no farm.
    """

    def __init__(self, settings: Settings, store: Store | None) -> None:
        self._settings = settings
        self._store = store
        self._models: Models | None = None
        self._identities: OrderedDict[str, PreparedIdentity] = OrderedDict()
        self.sources = SourceCache()
        self._card: CardSlot | None = None
        self._making = RLock()

    def warm(self) -> None:
        """Open what every chunk on a card needs, in a thread of its own: it takes a minute, and nobody waits yet."""
        Thread(target=self._warm, name="warm", daemon=True).start()

    def _warm(self) -> None:
        if self.card.usable:
            with suppress(FarmError):  # the first chunk meets it again, and says so
                self.card.open_eyes(self.models())

    @property
    def card(self) -> CardSlot:
        """The card of this slot, or why it has none."""
        with self._making:
            if self._card is None:
                self._card = CardSlot.here(self._settings)
            return self._card

    @property
    def threads(self) -> int:
        return self._settings.threads or len(os.sched_getaffinity(0))

    def models(self) -> Models:
        with self._making:
            return self._opened_models()

    def _opened_models(self) -> Models:
        if self._models is None:
            settings = self._settings
            # ONNX Runtime makes the card's context with its first session; by then it needs the decoder's flags.
            self.card.claim()
            deployment = open_deployment(settings.home, settings.models_dir, shelf=self._store)
            self._models = deployment.open_models(
                providers=settings.providers or ("auto",),
                threads=self.threads,
                allowed_licences=settings.allowed_licences,
            )
        return self._models

    def identity(self, digest: str, prepare: Callable[[], PreparedIdentity]) -> PreparedIdentity:
        """The identity with this digest, prepared at most once while it is among the last few used."""
        if digest not in self._identities:
            self._identities[digest] = prepare()
            if len(self._identities) > _MOST_IDENTITIES:
                self._identities.popitem(last=False)
        self._identities.move_to_end(digest)
        return self._identities[digest]

    def close(self) -> None:
        if self._card is not None:
            self._card.close()
        if self._models is not None:
            self._models.close()
            self._models = None
