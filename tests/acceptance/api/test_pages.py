"""The pages in a real browser, on a real farm."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from farm.sample import IDENTITIES, Sample, generate, portrait_picture
from tests.acceptance.api.conftest import FarmCommand
from tests.acceptance.conftest import own_copy

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (apt-get install chromium)")

PATIENCE = 120_000  # milliseconds


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def expected() -> set[int]:
    """Statuses of errors that a test provokes; it adds them."""
    return set()


@pytest.fixture
def page(browser: Browser, running_farm: FarmCommand, expected: set[int]) -> Iterator[Page]:
    """A page on a phone; a script error, or anything that was asked for and is not there, fails the test."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, base_url=running_farm.url)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert [error for error in errors if not any(f"status of {code} " in error for code in expected)] == []


@pytest.fixture(scope="module")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("plate"), seconds=2, size=(320, 180), people=1).plate


def fits(page: Page) -> bool:
    """Nothing has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_a_job_from_the_form_to_the_file(page: Page, plate: Path, tmp_path: Path) -> None:
    page.goto("/")
    assert fits(page)
    page.get_by_label("Plate", exact=True).set_input_files(plate)
    page.get_by_label("Recipe").select_option("passthrough")
    page.get_by_label("Deliverable", exact=True).select_option("ffv1")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Title").fill('<b>Reel</b> & "more"')
    page.get_by_label("Chunk, seconds").fill("1")
    page.get_by_label("Loudness").select_option("ebu-r128")
    page.get_by_role("group", name="More deliverables").get_by_label("review").check()
    assert fits(page)
    page.get_by_role("button", name="Submit").click()

    page.wait_for_url("**/jobs/*")
    expect(page.get_by_role("heading", level=1)).to_contain_text('<b>Reel</b> & "more"')
    expect(page.get_by_role("status")).to_have_text("completed", timeout=PATIENCE)
    expect(page.locator("#strip li.done")).to_have_count(2)
    expect(page.locator("#frames")).to_have_text("48 of 48")
    expect(page.locator("#files")).to_contain_text("48 of 48 decoded")
    expect(page.locator("#files")).to_contain_text("review")
    expect(page.locator("#files")).to_contain_text("LUFS")
    expect(page.locator("#events")).to_contain_text("job completed")
    expect(page.locator("#events")).to_contain_text("chunk 1 done")
    assert fits(page)
    with page.expect_download() as started:
        page.get_by_role("link", name="ffv1").click()
    out = tmp_path / "out.mkv"
    started.value.save_as(out)
    assert out.read_bytes().startswith(b"\x1aE\xdf\xa3")

    page.goto("/")
    expect(page.locator(".jobs")).to_contain_text('<b>Reel</b> & "more"')


def test_the_form_says_what_is_missing_and_what_the_farm_refuses(
    page: Page, plate: Path, tmp_path: Path, expected: set[int]
) -> None:
    expected.add(422)
    page.goto("/")
    problem = page.get_by_role("alert")
    send = page.get_by_role("button", name="Submit")
    send.click()
    expect(problem).to_have_text("Choose the plate.")
    page.get_by_label("Plate", exact=True).set_input_files(plate)
    send.click()
    expect(problem).to_contain_text("picture of the identity")
    text = tmp_path / "text.mp4"
    text.write_text("no film")
    page.get_by_label("Plate", exact=True).set_input_files(text)
    page.get_by_label("Recipe").select_option("passthrough")
    send.click()
    expect(problem).to_contain_text("text file")
    expect(send).to_be_enabled()


def test_a_job_is_cancelled_from_its_page(page: Page, plate: Path, running_farm: FarmCommand) -> None:
    # No worker has this tag, so that the job cannot end before the button is found.
    submitted = running_farm("submit", plate, "--recipe", "passthrough", "--tag", "nobody-has-it")
    job_id = submitted.stdout.strip()
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status")).to_have_text("cancelled", timeout=PATIENCE)
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    assert running_farm.data("job", job_id)["state"] == "cancelled"


def test_a_job_that_does_not_exist_is_a_page_too(page: Page, expected: set[int]) -> None:
    expected.add(404)
    answer = page.goto("/jobs/01NOTHING")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("Not Found")


def test_people_are_corrected_and_mapped_on_the_jobs_page(
    page: Page, browser: Browser, sample: Sample, running_farm: FarmCommand, tmp_path: Path, expected: set[int]
) -> None:
    plate, face = own_copy(sample.plate, tmp_path), tmp_path / "face.png"
    face.write_bytes(portrait_picture(IDENTITIES[1]).read_bytes())
    page.goto("/")
    page.get_by_label("Plate", exact=True).set_input_files(plate)
    page.get_by_label("Identity", exact=True).set_input_files(face)
    page.get_by_label("Let me choose").check()
    page.get_by_label("The submitter states").check()
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/*")
    expect(page.get_by_role("status")).to_have_text("awaiting cast", timeout=PATIENCE)
    person = page.get_by_role("listitem", name="person-1")
    expect(person).to_contain_text("s on screen", timeout=PATIENCE)
    loaded = "(picture) => picture.decode().then(() => picture.naturalWidth > 0)"  # waits until it has come
    assert person.get_by_role("img").first.evaluate(loaded)
    assert fits(page)

    # By keyboard alone, with scripts.
    page.get_by_label("person-2 is the same person as").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".people > li")).to_have_count(1, timeout=PATIENCE)

    # Without scripts at all.
    plain = browser.new_context(java_script_enabled=False, base_url=running_farm.url).new_page()
    plain.goto(page.url)
    plain.locator("summary").click()
    plain.get_by_role("checkbox").last.check()
    plain.get_by_role("button", name="are somebody else").click()
    expect(plain.locator(".people > li")).to_have_count(2, timeout=PATIENCE)
    expect(page.locator(".people > li")).to_have_count(2, timeout=PATIENCE)  # the other page hears of it
    expected.add(422)
    plain.get_by_role("button", name="Render").click()
    expect(plain.get_by_role("main")).to_contain_text("Nobody was chosen.")
    plain.get_by_role("link", name="Back to the job").click()
    plain.get_by_label("person-3 becomes").select_option("identity")
    plain.get_by_role("button", name="Render").click()
    expect(plain.get_by_role("listitem", name="person-3")).to_contain_text("Becomes identity", timeout=PATIENCE)
    plain.context.close()

    expect(page.get_by_role("listitem", name="person-3")).to_contain_text("Becomes identity", timeout=PATIENCE)
    expect(page.get_by_role("listitem", name="person-1")).to_contain_text("Stays untouched")
    expect(page.get_by_role("button", name="Merge person-1")).to_have_count(0)
    lines = page.locator("#events time").evaluate_all("all => all.map((time) => time.getClientRects().length)")
    assert set(lines) == {1}
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status")).to_have_text("cancelled", timeout=PATIENCE)


def test_an_operator_sees_the_farm_and_holds_a_job(page: Page, plate: Path, running_farm: FarmCommand) -> None:
    held = running_farm("submit", plate, "--recipe", "passthrough", "--tag", "nobody", "--title", "Held").stdout.strip()
    page.goto("/operate")
    expect(page.locator("#workers li").first).to_contain_text("awake", timeout=PATIENCE)
    job = page.locator(f"#jobs li[data-key='{held}']")
    expect(job).to_contain_text("No connected worker has the tags nobody.", timeout=PATIENCE)
    assert fits(page)
    job.get_by_role("button", name="Pause").click()
    expect(job).to_contain_text("paused", timeout=PATIENCE)
    page.on("dialog", lambda dialog: dialog.accept())
    job.get_by_role("button", name="Cancel").click()
    expect(job).to_have_count(0, timeout=PATIENCE)
    assert running_farm.data("job", held)["state"] == "cancelled"


def test_an_attempts_log_is_read_from_its_jobs_page(page: Page, plate: Path, running_farm: FarmCommand) -> None:
    job = running_farm("submit", plate, "--recipe", "passthrough", "--deliverable", "ffv1").stdout.strip()
    assert running_farm("watch", job).returncode == 0
    page.goto(f"/jobs/{job}")
    page.get_by_role("link", name="plan, attempt 1").click()
    expect(page.locator("#log")).to_contain_text("task claimed", timeout=PATIENCE)
    expect(page.locator("#end")).to_have_text("The attempt has ended.", timeout=PATIENCE)
    assert fits(page)
    assert "task claimed" in running_farm("logs", job, "--kind", "plan").stdout
