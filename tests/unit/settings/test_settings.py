from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from farm.errors import InputError
from farm.settings import Settings, load_settings, settings_markdown

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"FARM_{name.upper()}", raising=False)
        monkeypatch.delenv(f"FARM_{name.upper()}_FILE", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_settings_page_is_current() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_markdown(), "run: python -m farm.settings > docs/settings.md"


def test_every_setting_is_documented() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_defaults_listen_on_loopback_and_keep_consent_and_label() -> None:
    settings = load_settings()
    assert settings.api_host == "127.0.0.1"
    assert settings.consent_policy == "attest"
    assert settings.label_policy == "by_grant"
    assert settings.allowed_licences == ("permissive",)


def test_environment_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_WORKER_TAGS", "h200, nvenc,")
    monkeypatch.setenv("FARM_API_PORT", "8460")
    monkeypatch.setenv("FARM_S3_REGION", "")
    settings = load_settings()
    assert settings.worker_tags == ("h200", "nvenc")
    assert settings.api_port == 8460
    assert settings.s3_region is None


def test_overrides_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_CHUNK_SECONDS", "30")
    assert load_settings(chunk_seconds=10).chunk_seconds == 10


def test_a_secret_comes_from_its_file_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cr3t\n")
    monkeypatch.setenv("FARM_URL_SECRET_FILE", str(file))
    secret = load_settings().url_secret
    assert secret is not None
    assert secret.get_secret_value() == "s3cr3t"
    monkeypatch.setenv("FARM_URL_SECRET", "other")
    assert load_settings().url_secret == SecretStr("other")


def test_a_file_is_read_for_secrets_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("http://example.test")
    monkeypatch.setenv("FARM_URL_FILE", str(file))
    assert load_settings().url is None


def test_a_missing_secret_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FARM_URL_SECRET_FILE", str(tmp_path / "gone"))
    with pytest.raises(InputError, match="FARM_URL_SECRET_FILE"):
        load_settings()


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(load_settings(worker_secret="hunter2"))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("store", "ftp://host/x", "FARM_STORE"),
        ("store", "file://host/x", "FARM_STORE"),
        ("store", "s3:///prefix", "FARM_STORE"),
        ("api_port", "70000", "FARM_API_PORT"),
        ("consent_policy", "none", "FARM_CONSENT_POLICY"),
        ("heartbeat_seconds", "59", "FARM_LEASE_SECONDS"),
    ],
)
def test_a_wrong_value_is_an_input_error_that_names_the_setting(name: str, value: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_settings(**{name: value})


def test_an_error_does_not_repeat_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_URL_SECRET", "hunter2")
    monkeypatch.setenv("FARM_API_PORT", "x")
    with pytest.raises(InputError) as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)


def test_settings_travel_by_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tags = ("a", "b")
    made = load_settings(home="~/farm", scratch="near", worker_tags=tags, url_secret="s", s3_path_style=True, url=None)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    again = load_settings()
    assert again == made
    assert again.scratch == tmp_path / "near"
    assert again.home == Path.home() / "farm"
