# SPDX-License-Identifier: Apache-2.0
"""The operator's page in a real browser: Debian's Chromium, by Playwright. `make test-browser` installs both."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode does not, and the tests share page_kit

if find_spec("playwright") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from page_kit import PICTURES, WIDE
    from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "Debian's chromium is not installed: run scripts/browser.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Page]]:
    """Open pages of a size, theme and language. Afterwards keep a picture of each, and fail on any error of its scripts."""
    pages: list[Page] = []
    errors: list[str] = []

    def make(size: tuple[int, int] = WIDE, *, theme: str = "light", language: str = "en", **options: Any) -> Page:
        about = {"viewport": {"width": size[0], "height": size[1]}, "color_scheme": theme, "locale": language}
        page = browser.new_context(**about, **options).new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}"))
        page.on("console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None)
        pages.append(page)
        return page

    yield make
    PICTURES.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w-]+", "_", request.node.name)
    for n, page in enumerate(pages):
        page.screenshot(path=PICTURES / f"{name}{n or ''}.png")
        page.context.close()
    assert not errors
