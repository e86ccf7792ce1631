"""The garbage collector while calls are under way.

A process with Dagster in it holds half a million objects that stay. Each full collection looks at all of them, which
takes a tenth of a second and more and holds up every call that is due meanwhile. Here: leaving them out of it. What is
made during a run is collected as ever.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
#: Runs under way for which the objects are left out.
_runs = 0


@contextmanager
def without_what_is_there() -> Iterator[None]:
    """Until the end of the block (of the last one, if several run at once) no collection looks at what exists now.

    Where somebody else has frozen objects, as a process may do before it forks, nothing is done: theirs must stay so.
    """
    global _runs  # noqa: PLW0603  (there is one collector)
    with _lock:
        takes_part = _runs > 0 or gc.get_freeze_count() == 0
        if takes_part:
            _runs += 1
            gc.freeze()
    try:
        yield
    finally:
        if takes_part:
            with _lock:
                _runs -= 1
                if _runs == 0:
                    gc.unfreeze()
