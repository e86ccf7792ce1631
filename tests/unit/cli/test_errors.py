"""How commands end: every failure has its exit code, and none of them looks like a verdict."""

from __future__ import annotations

import os
import sys

import pytest
import typer

from radar_dagster.cli.errors import run_guarded, worst
from radar_dagster.errors import BadInputError, OperationalError


def failing(error: BaseException) -> int:
    def command() -> int:
        raise error

    return run_guarded(command)


@pytest.mark.parametrize(("error", "code"), [(BadInputError("x.csv:3: no"), 2), (OperationalError("key"), 4)])
def test_an_error_of_ours_is_one_message_on_stderr_with_its_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"Error: {error}\n"


def test_a_message_can_not_send_escape_sequences_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    failing(BadInputError("no file \x1b[2J.csv"))
    assert capsys.readouterr().err == "Error: no file \\x1b[2J.csv\n"


def test_a_bug_shows_its_traceback_and_does_not_read_as_a_violated_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(ZeroDivisionError("oops")) == 4
    captured = capsys.readouterr()
    assert "ZeroDivisionError: oops" in captured.err
    assert "bug in radar" in captured.err
    assert captured.out == ""


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_typers_own_exceptions_pass_through() -> None:
    with pytest.raises(typer.BadParameter):
        failing(typer.BadParameter("x"))


def test_a_reader_that_went_away_is_141_and_silent(capfd: pytest.CaptureFixture[str], monkeypatch) -> None:  # type: ignore[no-untyped-def]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)

        def command() -> int:
            print("x" * 100_000)
            return 0

        assert run_guarded(command) == 141
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("codes", "expected"), [([], 0), ([0, 3], 3), ([3, 1, 0], 1), ([1, 4], 4), ([0, 0], 0), ([2, 1], 2)]
)
def test_of_several_cells_the_worst_counts_and_a_violation_outweighs_an_inconclusive_one(
    codes: list[int], expected: int
) -> None:
    assert worst(codes) == expected
