from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from farm.api.guard import check_exposure, is_loopback
from farm.errors import PolicyError
from farm.settings import Settings
from tests.unit.api.helpers import problem, upload

TOKEN = "a-long-token"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "farm.localhost"])
def test_loopback_names(host: str) -> None:
    assert is_loopback(host)


EVERYWHERE = "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize("host", [EVERYWHERE, "10.0.0.1", "::", "example.org", "127.0.0.1.example.org", ""])
def test_other_names(host: str) -> None:
    assert not is_loopback(host)


def test_an_open_api_without_a_token_is_refused() -> None:
    with pytest.raises(PolicyError, match="open to everybody"):
        check_exposure(Settings(api_host=EVERYWHERE))
    check_exposure(Settings(api_host=EVERYWHERE, api_token=TOKEN))  # type: ignore[arg-type]
    check_exposure(Settings())


def test_without_a_token_only_this_machine_is_answered(api: FlaskClient) -> None:
    assert api.get("/api/v1/jobs").status_code == 200
    problem(api.get("/api/v1/jobs", base_url="http://evil.example"), 403)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_page_of_another_site_cannot_submit(api: FlaskClient, headers: dict[str, str]) -> None:
    problem(api.post("/api/v1/jobs", headers=headers, data={}), 403)


def test_the_farms_own_page_can(api: FlaskClient) -> None:
    answer = api.post(
        "/api/v1/jobs/none/cancel", headers={"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    )
    problem(answer, 404)


def test_a_token_is_asked_for_where_one_is_set(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(api_token=TOKEN)
    answer = api.get("/api/v1/jobs")
    problem(answer, 401)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    problem(api.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong"}), 401)
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert api.get("/api/v1/jobs", headers=right, base_url="http://farm.example").status_code == 200
    assert api.get("/healthz").status_code == 200
    problem(upload(api), 401)


def test_a_browser_enters_by_a_cookie_that_is_not_the_token(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(api_token=TOKEN, session_secret="s" * 32)
    assert api.get("/").headers["Location"].endswith("/login")
    assert api.post("/login", data={"token": "wrong"}).status_code == 403
    entered = api.post("/login", data={"token": TOKEN})
    cookie = entered.headers["Set-Cookie"]
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    assert api.get("/").status_code == 200
