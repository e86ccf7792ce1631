"""What garbage collections look at while calls are under way."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from radar_dagster.models.collector import without_what_is_there


class Thing:
    """Something that can be watched."""


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    assert gc.get_freeze_count() == 0
    yield
    assert gc.get_freeze_count() == 0


def test_what_is_there_is_left_out_and_what_comes_is_collected() -> None:
    before = Thing()
    with without_what_is_there():
        assert not any(each is before for each in gc.get_objects())
        made = Thing()
        made.itself = made  # type: ignore[attr-defined]
        watched = weakref.ref(made)
        del made
        gc.collect()
        assert watched() is None
    assert any(each is before for each in gc.get_objects())


def test_garbage_of_before_is_collected_afterwards() -> None:
    made = Thing()
    made.itself = made  # type: ignore[attr-defined]
    watched = weakref.ref(made)
    with without_what_is_there():
        del made
        gc.collect()
    gc.collect()
    assert watched() is None


def test_an_error_ends_it_too() -> None:
    with pytest.raises(KeyError), without_what_is_there():
        raise KeyError


def test_it_lasts_until_the_end_of_the_last_of_several() -> None:
    first_has_ended, second_has_begun = threading.Event(), threading.Event()
    left: list[bool] = []

    def second() -> None:
        with without_what_is_there():
            second_has_begun.set()
            assert first_has_ended.wait(10)
            left.append(gc.get_freeze_count() > 0)

    thread = threading.Thread(target=second)
    with without_what_is_there():
        thread.start()
        assert second_has_begun.wait(10)
    first_has_ended.set()
    thread.join(10)
    assert left == [True]


def test_what_others_have_frozen_stays_so() -> None:
    gc.freeze()
    try:
        with without_what_is_there():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
