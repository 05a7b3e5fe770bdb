"""The API over an S3 store: plates named by URI, downloads by signed links."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr
from werkzeug.serving import make_server

from farm.api.app import create_app
from farm.api.schemas import IdentityIn, JobIn
from farm.api.services import Services
from farm.client import Client
from farm.db.engine import Sessions
from farm.errors import InputError, PolicyError
from farm.settings import Settings
from farm.store.factory import open_store
from farm.store.s3 import S3Store, connect
from tests.integration.jobs.hands import Hands
from tests.services import CREDENTIALS
from tests.unit.api.helpers import FACE, PLATE

BUCKET = "farm-api"


@pytest.fixture
def s3_services(services: Services, moto_url: str, tmp_path: Path) -> Services:
    settings = Settings(
        home=tmp_path / "home",
        store=f"s3://{BUCKET}/farm",
        s3_endpoint=moto_url,
        s3_region="us-east-1",
        s3_access_key=SecretStr(CREDENTIALS[0]),
        s3_secret_key=SecretStr(CREDENTIALS[1]),
        s3_path_style=True,
    )
    client = connect(
        endpoint=moto_url, region="us-east-1", access_key=CREDENTIALS[0], secret_key=CREDENTIALS[1], path_style=True
    )
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="in/A plate.mp4", Body=PLATE)
    client.put_object(Bucket=BUCKET, Key="in/face.jpg", Body=FACE)
    return replace(services, settings=settings, store=open_store(settings), signer=None)


@pytest.fixture
def s3_client(s3_services: Services) -> Iterator[Client]:
    server = make_server("127.0.0.1", 0, create_app(services=s3_services), threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    client = Client(f"http://127.0.0.1:{server.server_port}", sleep=lambda seconds: None)
    yield client
    client.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_plate_in_the_bucket_becomes_a_job_and_its_file_a_signed_link(
    s3_client: Client, s3_services: Services, sessions: Sessions, tmp_path: Path
) -> None:
    face = IdentityIn(pictures=(f"s3://{BUCKET}/in/face.jpg",))
    job = s3_client.submit(JobIn(plate=f"s3://{BUCKET}/in/A plate.mp4", identities=(face,), deliverables=("review",)))
    store = s3_services.store
    assert isinstance(store, S3Store)
    assert store.get_bytes(f"jobs/{job.id}/plate") == PLATE
    assert list((tmp_path / "scratch").iterdir()) == []
    hands = Hands(sessions)
    while (claim := hands.claim()) is not None:
        if claim.kind == "plan":
            hands.publish(claim, 0)
        if claim.kind == "merge":
            store.put_bytes(f"merge/{claim.lease.attempt_id}", b"finished")
        hands.finish(claim, chunks=1, mapping={"mode": "lead", "identity": "identity"})
    out = io.BytesIO()
    s3_client.download(job.id, "review", out)
    assert out.getvalue() == b"finished"

    with pytest.raises(InputError, match="no such object"):
        s3_client.submit(JobIn(plate=f"s3://{BUCKET}/in/nothing.mp4"))
    with pytest.raises(PolicyError, match="own bucket"):
        s3_client.submit(JobIn(plate="s3://other/in/plate.mp4"))
    assert [info.key.split("/")[1] for info in store.list("jobs/") if info.key.endswith("/plate")] == [job.id]
