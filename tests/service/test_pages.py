"""The pages in a real browser: Debian's Chromium, without a window.

SCREENSHOTS names a folder to keep what was seen in, such as docs/service.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, keep_best

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")

QUIET = [f"--{flag}" for flag in ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-sync")]
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A page that notes each request that goes anywhere else, and each error."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.elsewhere, opened.errors = [], []
    opened.on("request", lambda request: _note(opened, request.url))
    opened.on("console", lambda message: opened.errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    yield opened
    assert opened.elsewhere == []
    assert opened.errors == []
    opened.close()


def _note(page, url: str) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:")):
        page.elsewhere.append(url)


def keep(page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def pictures(page) -> list:
    return page.eval_on_selector_all("figure img", "all => all.map(one => [one.naturalWidth, one.alt])")


def test_load_filter_and_open_a_study(serve, page):
    page.goto(serve())
    assert page.locator("tbody tr").count() == 2
    assert page.locator(".badge.measured").count() == page.locator(".badge.virtual").count() == 1
    page.get_by_label("dtype").select_option("bf16")
    page.get_by_role("button", name="Filter").click()
    assert page.get_by_role("status").inner_text() == "1 of 2"
    assert page.get_by_label("dtype").input_value() == "bf16"
    keep(page, "bests")
    page.get_by_role("link", name="geglu_forward").click()
    assert page.locator("h1").inner_text() == "geglu_forward 8192x11008 bf16 on Ascend910B4 virtual"
    shown = pictures(page)
    assert len(shown) == 3
    assert all(width > 0 for width, _ in shown)
    assert shown[0][1] == (
        "Time against BLOCK_SIZE: 5 trials, the best takes 740 us with BLOCK_SIZE 6144, "
        "the default 900 us with 8192, the UB limit is 8192"
    )
    page.get_by_text("All 5 trials").click()
    assert page.locator("details tbody tr").count() == 5
    keep(page, "study")


def test_a_filter_that_leaves_nothing_says_so(serve, page):
    page.goto(f"{serve()}?dtype=bf16&source=measured")
    assert page.get_by_role("status").inner_text() == "0 of 2"
    page.get_by_role("link", name="clear").click()
    assert page.locator("tbody tr").count() == 2


def test_everything_can_be_done_with_the_keyboard(serve, page):
    page.goto(serve())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    seen = []
    for _ in range(14):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim().split(/\\s+/)[0] || ''"))
    assert "Bests" in seen
    assert "Filter" in seen
    assert "geglu_forward" in seen
    page.get_by_role("link", name="geglu_forward").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("h1").inner_text().startswith("geglu_forward")


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_at_the_side(serve, page, width: int):
    url = serve()
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("", "study/1", "compare"):
        page.goto(f"{url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("Math.min(...[...document.querySelectorAll('td')].map(e => e.clientWidth), 999)") > 20
        keep(page, f"{path.partition('/')[0] or 'bests'}-{width}")


def test_two_sweeps_are_compared(serve, page, tuned: Path):
    with Store.open(tuned, create=False) as store:
        keep_best(store, Tiling(7424, 40), 370.0, seed=1)
    page.goto(f"{serve()}compare")
    page.get_by_label("first").select_option("1")
    page.get_by_label("second").select_option("4")
    page.get_by_role("button", name="Compare").click()
    assert page.locator("tbody tr").count() == 1
    row = page.locator("tbody tr").inner_text()
    assert str(FORWARD) in row
    assert "2.432 x as fast" in row
    keep(page, "compare")


def test_a_measured_study_has_no_virtual_mark(serve, page):
    page.goto(f"{serve()}study/2")
    assert page.locator(".badge.measured").count() >= 1
    assert page.locator(".badge.virtual").count() == 0
    assert "a driver does not tell what its pipes do" in page.locator("main").inner_text()


def test_a_report_opens_from_a_file(page, tuned: Path, tmp_path: Path):
    from typer.testing import CliRunner

    from geglu_tune.cli import app

    assert CliRunner().invoke(app, ["report", str(tmp_path / "r.html"), "--db", str(tuned)]).exit_code == 0
    page.goto((tmp_path / "r.html").as_uri())
    page.elsewhere.clear()  # the file itself
    page.get_by_role("link", name="geglu_forward").first.click()
    assert "#study-" in page.url
    assert all(width > 0 for width, _ in pictures(page))
    keep(page, "report")
