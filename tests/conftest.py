"""Settings of the whole test suite, and fixtures that unit and integration tests share."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from stub_server import StubProcess, StubServer

# The importlib import mode gives test modules no common folder: `stub_server` is found this way.
sys.path.append(str(Path(__file__).parent))

# No deadline: a busy machine is no fault of the code. Fresh examples at every desk; the same ones in every run of CI,
# so that a red run means a changed project.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Name the one at fault when an earlier test left its event loop running; all later tests would fail of it."""
    loop = asyncio._get_running_loop()
    if loop is not None and "browser" not in getattr(item, "fixturenames", ()):
        pytest.fail(f"an event loop still runs in this thread when the test starts: {loop}")


@pytest.fixture
def stub() -> Iterator["StubServer"]:
    """A fresh stub of the model providers in a thread of this process; change `stub.settings`, read `stub.log`."""
    from stub_server import StubServer

    with StubServer() as server:
        yield server


@pytest.fixture
def stub_process() -> Iterator["StubProcess"]:
    """A fresh stub of the model providers in a process of its own; it outlives clients that are killed."""
    from stub_server import StubProcess

    with StubProcess() as server:
        yield server


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real ratings, which the project doesn't contain: RADAR_TEST_DATA, or shared/data beside it."""
    folder = Path(os.environ.get("RADAR_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real ratings at {folder}; RADAR_TEST_DATA may name their folder")
    return folder
