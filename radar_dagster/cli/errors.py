"""How a command ends: its exit code, one clear message on stderr, and what happens to Ctrl-C and a closed pipe.

Exit codes: 0 passed the policy, 1 policy violated, 2 usage or bad input, 3 inconclusive, 4 operational failure. A bug
in radar prints its traceback and exits with 4 as well, because 1 would read as a verdict. 130 is Ctrl-C and 141 a
reader that went away, as shells have it.

Not here: the errors themselves (`radar_dagster/errors.py`), and which verdict leads to which code (`stats/verdict.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from radar_dagster.errors import RadarError

PASSED, VIOLATED, BAD_INPUT, INCONCLUSIVE, OPERATIONAL = 0, 1, 2, 3, 4
INTERRUPTED, BROKEN_PIPE = 130, 141

#: From the worst down: what could not be run hides what it would have found, and a violation that was seen stands
#: whatever the other pairs could not tell.
_WORST_FIRST = (OPERATIONAL, BAD_INPUT, VIOLATED, INCONCLUSIVE, PASSED)


def worst(codes: list[int]) -> int:
    """The exit code of several cells together: 4 before 2 before 1 before 3 before 0."""
    return min(codes, key=_WORST_FIRST.index, default=PASSED)


def run_guarded(command: Callable[[], int]) -> int:
    """Run a command; returns its exit code, whatever happens in it. Typer's own exceptions pass through.

    A no to a question ends it as Ctrl-C does.
    """
    import typer

    try:
        code = command()
        sys.stdout.flush()
    except (typer.Exit, typer.TyperException):
        raise
    except RadarError as error:
        _say(f"Error: {error}")
        return error.exit_code
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        _say("Interrupted.")
        return INTERRUPTED
    except (Exception, SystemExit):  # Typer ends by exceptions of its own: an exit from anywhere else is no pass
        import traceback

        _say(traceback.format_exc().rstrip())
        _say("Error: this is a bug in radar, not in your input; please report it with the lines above.")
        return OPERATIONAL
    return code


def _say(message: str) -> None:
    from radar_dagster.cli.output import on_stderr

    on_stderr(message)
