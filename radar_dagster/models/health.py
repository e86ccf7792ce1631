"""Whether an endpoint is worth more calls: reachable at all, gone for a while, or down.

A run must not burn its requests on an endpoint that is not there, and must not give up for a moment's loss of the
network. Here: the rules, as a small state machine that is told what happens. Not here: one call's own retries
(`chains.py`), how many calls an endpoint can take (`limits.py`).
"""

from __future__ import annotations

import math

from radar_dagster.models.replies import State

#: Without any connection yet: so long until the second and last try, which is left out when the first took longer.
_SECOND_TRY_S = 0.3
_SLOW_TRY_S = 2.0
#: A connection that stays gone for so long is the end; meanwhile a single call tries, at growing distances.
_GONE_S = 60.0
_FIRST_HOLD_S = 0.5
_LONGEST_HOLD_S = 5.0
#: So many requests that failed in transport are the end: when no other has ended, or in a row.
_FIRST_FAILURES = 20
_FAILURES_IN_A_ROW = 50


class Health:
    """What a run knows of its endpoint. Methods return why the run must end, or None; times are in seconds."""

    def __init__(self) -> None:
        #: No call starts before.
        self.hold_until = -math.inf
        self._reached = False
        self._gone_since: float | None = None
        self._tries = 0
        self._any_answer = False
        self._failures = 0

    def started(self, now: float) -> None:
        """A call starts; while the connection is gone, no other does until it is known how this one fares."""
        if self._gone_since is not None:
            self.hold_until = now + _LONGEST_HOLD_S

    def reached(self) -> None:
        """The endpoint answered something, an error for instance."""
        self._reached = True
        if self._gone_since is not None:
            self._gone_since, self._tries, self.hold_until = None, 0, -math.inf

    def unreachable(self, now: float, started: float, message: str) -> str | None:
        """A call that was started then found no connection."""
        since = self._gone_since
        if since is not None and started < since:
            return None  # it was under way together with the one that is counted
        if not self._reached and (since is not None or now - started > _SLOW_TRY_S):
            return message
        if since is not None and now - since >= _GONE_S:
            return f"{message}; the connection has been gone for {now - since:.0f} s"
        hold = min(_FIRST_HOLD_S * 2**self._tries, _LONGEST_HOLD_S) if self._reached else _SECOND_TRY_S
        self._gone_since = now if since is None else since
        self._tries += 1
        self.hold_until = now + hold
        return None

    def ended(self, state: State, detail: str | None, *, refused: bool = False) -> str | None:
        """A request ended after its last attempt. `refused`: the endpoint works, and would not have this one."""
        if state is not State.TRANSPORT_ERROR:
            self._any_answer, self._failures = True, 0
            return None
        if refused and self._any_answer:
            return None  # fifty texts in a row may be too long, and the next one not
        self._failures += 1
        if self._failures < (_FAILURES_IN_A_ROW if self._any_answer else _FIRST_FAILURES):
            return None
        return f"given up, for the last {self._failures} requests all failed; the last one: {detail}"
