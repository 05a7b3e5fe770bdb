"""The gate that stands before every task that touches faces: no permit of this farm, no model is loaded."""

from __future__ import annotations

from farm.errors import InputError, PolicyError
from farm.provenance import permit as permits
from farm.worker.task import TaskContext


def require_permit(context: TaskContext) -> permits.Permit | None:
    """The checked permit of the job; None where no face is changed. PolicyError when there is no good one."""
    job = context.claim.job
    if not job.recipe.changes_faces:
        return None
    if context.settings.permit_public_key is None:
        raise InputError(
            "This worker does not know the farm's permit key.",
            where="FARM_PERMIT_PUBLIC_KEY",
            do="Give every worker the public key that `farm permit-key` prints.",
        )
    token = (job.permit or {}).get("token")
    if token is None:
        raise PolicyError("The job has no permit.", where=context.where, do="Submit it through the farm's API.")
    permit = permits.check(token, context.settings.permit_public_key, now=context.control.now())
    if job.plate.sha256 is None:
        raise PolicyError("The plate's content is not known.", where=context.where, do="Submit the job again.")
    permits.bind(
        permit,
        job=job.id,
        plate_sha256=job.plate.sha256,
        identities=tuple(picture.sha256 for identity in job.identities for picture in identity.pictures),
        recipe_digest=job.recipe.digest(),
    )
    return permit
