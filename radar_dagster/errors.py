"""The errors that reach a person, each with the exit code of the command line.

Here: what a user can act on. Not here: bugs, which stay ordinary exceptions with their traceback.
"""

from __future__ import annotations


class RadarError(Exception):
    """Something a user can mend. The message names the place and what was expected there."""

    exit_code = 2


class BadInputError(RadarError):
    """A file, a row or an option is not what was expected: nothing was written (exit 2)."""

    exit_code = 2


class OperationalError(RadarError):
    """A key, a provider or a budget stands in the way (exit 4)."""

    exit_code = 4
