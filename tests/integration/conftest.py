"""Fixtures of the integration tests."""

import os
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


#: Seen to fail now and then on a busy machine, cause not found yet: opt-in until they are seen to hold.
_UNSETTLED = (
    "test_hosted_kill.py",
    "test_hosted_processes.py",
    "test_batch_restart.py",
    "test_an_audit_of_models_that_repeat_the_key_leaves_it_nowhere",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with a reason, what is known to be unsettled, unless RADAR_UNSETTLED_TESTS is set."""
    if os.environ.get("RADAR_UNSETTLED_TESTS"):
        return
    skip = pytest.mark.skip(reason="unsettled: fails now and then on a busy machine; set RADAR_UNSETTLED_TESTS=1")
    for item in items:
        if any(name in item.nodeid for name in _UNSETTLED):
            item.add_marker(skip)
