"""The real services of the API, as the settings name them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import structlog

from farm.api.known import KnownPlates
from farm.api.ledger import PostgresLedger
from farm.api.live import Gate
from farm.api.operations import Operations
from farm.api.services import Services
from farm.db.engine import make_engine, make_sessions
from farm.db.ids import new_id
from farm.errors import InputError
from farm.faces.candidate import SMALLEST, FaceFinder, PictureBytes, read_picture
from farm.faces.identity import prepare_identity
from farm.faces.readiness import check_recipe
from farm.inference.catalogue import Catalogue
from farm.inference.deployment import open_deployment
from farm.inference.licences import LicencePolicy
from farm.inference.providers import CPU
from farm.inference.session import Models
from farm.jobs.policy import policy_of
from farm.jobs.reconcile import OutboxDispatcher
from farm.media.sandbox import probe_safely, stills_safely
from farm.permits import Permits
from farm.settings import Settings
from farm.store.factory import open_store, url_signer
from farm.store.folder import FolderStore
from farm.wakeups import Hurry, Wakeups
from farm.words import counted
from farm.worker.scratch import Scratch, scratch_root

# Threads that live views never get, so that the rest of the API always answers.
_SPARE_THREADS = 4
_STILLS = 8

log = structlog.get_logger(__name__)


def make_services(settings: Settings) -> Services:
    """InputError where a setting that the API needs is missing."""
    if settings.database_url is None:
        raise InputError("No database is set.", where="FARM_DATABASE_URL", do="Set it, or use `farm up`.")
    engine = make_engine(settings.database_url, application="farm-api", pool_size=settings.database_pool_size)
    sessions = make_sessions(engine)
    store = open_store(settings)
    deployment = open_deployment(settings.home, settings.models_dir, shelf=store)
    scratch = Scratch(scratch_folder(settings, store.root if isinstance(store, FolderStore) else None))
    scratch.sweep()
    checker = FaceChecker(deployment.catalogue)
    threading.Thread(target=checker.warm, name="warm-faces", daemon=True).start()
    dispatcher = OutboxDispatcher(sessions, Wakeups(settings.broker_url))
    policy = policy_of(settings)
    return Services(
        settings=settings,
        ledger=PostgresLedger(sessions, policy),
        store=store,
        signer=url_signer(settings) if isinstance(store, FolderStore) else None,
        scratch=scratch,
        probe=KnownPlates(probe_safely),
        stills=partial(stills_safely, count=_STILLS),
        check_faces=checker,
        check_stills=checker.check_stills,
        check_recipe=partial(
            check_recipe, deployment=deployment, allowed_licences=LicencePolicy.of(settings.allowed_licences).allowed
        ),
        permits=Permits.of(settings, sessions),
        wake=Hurry(dispatcher.run_once),
        new_id=new_id,
        operations=Operations(
            sessions,
            policy,
            own_worker_secret=settings.worker_secret.get_secret_value() if settings.worker_secret else None,
        ),
        live=Gate(max(1, settings.api_threads - _SPARE_THREADS)),
    )


def scratch_folder(settings: Settings, store_root: Path | None) -> Path:
    """Where uploads arrive: beside the store, whose disk must take them anyway; else where the settings say."""
    if store_root is not None:
        return store_root.parent / "incoming"
    return scratch_root(settings) / "incoming"


class FaceChecker:
    """Prepares identities as the worker will, to refuse pictures before a job is made of them.

    The models are loaded once, in this process, on the processor; one request at a time uses them.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._models = Models(catalogue, providers=(CPU,), threads=1)
        self._lock = threading.Lock()

    def __call__(self, pictures: Sequence[bytes], face: int | None, label: str) -> None:
        count = len(pictures)
        named = [PictureBytes(data, picture_label(label, number, count)) for number, data in enumerate(pictures)]
        with self._lock:
            prepare_identity(named, self._models, face=face)

    def check_stills(self, stills: Sequence[bytes], label: str) -> None:
        """InputError unless at least one of a clip's stills (JPEG) shows a face that is large enough."""
        with self._lock:
            finder = FaceFinder(self._models)
            if any(finder.in_frame(read_picture(PictureBytes(still, label)), label, 0, 0.0) for still in stills):
                return
        raise InputError(
            f"No face of {SMALLEST} pixels or more was found in {counted(len(stills), 'picture')} from this clip.",
            where=label,
            do="Send a clip that shows the person's face from the front, large and in good light.",
        )

    def warm(self) -> None:
        """Load the models ahead of the first request; what fails here fails there, with its reason."""
        from farm.faces.network import DETECTOR, EMBEDDER, LANDMARKER

        try:
            with self._lock:
                for name in (DETECTOR, LANDMARKER, EMBEDDER):
                    self._models.load(name)
        except Exception as error:
            log.warning("models not loaded ahead", error=str(error))


def picture_label(label: str, number: int, count: int) -> str:
    """`identity`, or `identity[1]` for the second of several pictures."""
    return label if count == 1 else f"{label}[{number}]"
