"""A limit on money that no call may cross: what a call can cost at most is set aside before it starts.

Here: the sums, exact and safe to use from several threads. Not here: what a call costs (`prices.py`), and when to ask
(`driver.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext

from radar_dagster.errors import OperationalError
from radar_dagster.models.prices import EXACT

_NOTHING = Decimal(0)


class Reservation:
    """Money set aside for one call, until `Budget.settle` says what it came to."""

    __slots__ = ("amount",)

    def __init__(self, amount: Decimal) -> None:
        #: US dollars, 0 or more.
        self.amount = amount

    def __repr__(self) -> str:
        return f"Reservation({self.amount})"


class Budget:
    """US dollars that may be spent: `limit` in all (None: any amount), of which `spent` are gone already.

    As long as no call costs more than was set aside for it, `spent` never passes `limit`. ValueError for an amount
    that is negative or not finite.
    """

    def __init__(self, limit: Decimal | None, spent: Decimal = _NOTHING) -> None:
        self._limit = None if limit is None else _amount(limit)
        self._spent = _amount(spent)
        self._reserved = _NOTHING
        self._overrun = False
        self._open: set[Reservation] = set()
        self._lock = threading.Lock()

    def require_prices(self, unpriced: Iterable[str]) -> None:
        """OperationalError when there is a limit and a model without a price: ask before the first call of a run."""
        names = list(dict.fromkeys(unpriced))
        if self._limit is not None and names:
            entries = ", ".join(f'"{name}": {{input: …, output: …}}' for name in names)
            raise OperationalError(
                f"the price of {', '.join(names)} is unknown, so that a budget can't be kept; "
                f"add `prices: {{{entries}}}` (US dollars per million tokens) to radar.yaml, or set no budget"
            )

    def reserve(self, worst: Decimal | None, model: str = "endpoint/model") -> Reservation | None:
        """Set aside what a call to `model` can cost at most; None when that does not fit now.

        It may fit later, when other calls turn out cheaper than they might have (`may_fit_later`). Without a price
        (`worst` is None) nothing is set aside, and OperationalError is raised where there is a limit.
        """
        if worst is None:
            self.require_prices([model])
        reservation = Reservation(_NOTHING if worst is None else _amount(worst))
        with self._lock, localcontext(EXACT):
            if self._limit is not None and self._spent + self._reserved + reservation.amount > self._limit:
                return None
            self._reserved += reservation.amount
            self._open.add(reservation)
        return reservation

    def settle(self, reservation: Reservation, actual: Decimal | None) -> None:
        """End a reservation: the call came to `actual`; 0 if it was never billed.

        None means that nobody can tell (the connection broke, the reply told no tokens): then all that was set aside
        counts as spent. A call that cost more than was set aside counts with what it cost. ValueError when the
        reservation was settled before.
        """
        amount = reservation.amount if actual is None else _amount(actual)
        with self._lock, localcontext(EXACT):
            if reservation not in self._open:
                raise ValueError(f"{reservation} is not open in this budget")
            self._open.remove(reservation)
            self._reserved -= reservation.amount
            self._spent += amount
            self._overrun = self._overrun or amount > reservation.amount

    def may_fit_later(self, worst: Decimal) -> bool:
        """Whether a call that does not fit now could do so once others are settled; False means: stop."""
        with self._lock, localcontext(EXACT):
            return self._limit is None or self._spent + worst <= self._limit

    @property
    def limit(self) -> Decimal | None:
        """US dollars in all; None: any amount."""
        return self._limit

    @property
    def spent(self) -> Decimal:
        """US dollars of all calls that are settled."""
        with self._lock:
            return self._spent

    @property
    def reserved(self) -> Decimal:
        """US dollars set aside for calls that are not."""
        with self._lock:
            return self._reserved

    @property
    def available(self) -> Decimal | None:
        """US dollars that the next call may cost at most; None without a limit."""
        if self._limit is None:
            return None
        with self._lock, localcontext(EXACT):
            return max(_NOTHING, self._limit - self._spent - self._reserved)

    @property
    def exceeded(self) -> bool:
        """Whether more was spent than allowed: a call cost more than it should have been able to, or the limit of an
        earlier process was higher. No call fits any more, not even one that costs nothing.
        """
        return self._limit is not None and self.spent > self._limit

    @property
    def shortage(self) -> str:
        """Why a call that does not fit any more is not made, for people."""
        spent = self.spent
        if self._limit is None or spent <= self._limit:
            return f"the budget of ${self._limit} leaves no room for this call"
        text = f"${spent.normalize():f} of a budget of ${self._limit} is spent"
        return f"{text}, because a call cost more than it should have been able to" if self._overrun else text


_shared: dict[str, Budget] = {}
_shared_lock = threading.Lock()


def budget_of(session: str, limit_usd: float | None, spent: Callable[[], Decimal]) -> Budget:
    """The one budget of a session in this process; `spent` tells what earlier processes of the session spent."""
    with _shared_lock:
        if session not in _shared:
            _shared[session] = Budget(None if limit_usd is None else Decimal(str(limit_usd)), spent())
        return _shared[session]


def _amount(value: Decimal) -> Decimal:
    if not value.is_finite() or value < 0:
        raise ValueError(f"expected US dollars, 0 or more, found {value}")
    return value
