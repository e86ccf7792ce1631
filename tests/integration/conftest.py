"""Fixtures of the integration tests."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The importlib import mode gives test modules no common folder: helpers beside them are found this way.
sys.path.append(str(Path(__file__).parent))

_CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A real headless Chromium.

    One per module, not per session: Playwright's event loop counts as running in this thread until the browser is
    closed, and every later test that starts a loop of its own would fail.
    """
    if _CHROMIUM is None:
        pytest.skip("no Chromium on this machine (looked for chromium, chromium-browser)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        yield chromium
        chromium.close()
