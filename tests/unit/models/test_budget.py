"""The budget: no set of calls can cross the limit, whatever order they start and end in, and no cent is lost."""

from __future__ import annotations

import random
import threading
import time
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from radar_dagster.errors import OperationalError
from radar_dagster.models.budget import Budget, Reservation

#: Dollars as prices make them: many decimals, some of them at very different scales.
DOLLARS = st.decimals(0, 20, places=12) | st.decimals(0, "0.001", places=24) | st.just(Decimal(0))


def taken(budget: Budget, worst: str) -> Reservation:
    reservation = budget.reserve(Decimal(worst))
    assert reservation is not None
    return reservation


def test_a_call_that_could_cross_the_limit_does_not_start() -> None:
    budget = Budget(Decimal(1))
    first = taken(budget, "0.6")
    assert budget.reserve(Decimal("0.41")) is None
    assert budget.available == Decimal("0.4")
    budget.settle(first, Decimal("0.1"))  # cheaper than it might have been
    assert (budget.spent, budget.reserved, budget.available) == (Decimal("0.1"), 0, Decimal("0.9"))
    taken(budget, "0.9")  # exactly up to the limit
    assert budget.available == 0
    assert not budget.exceeded


def test_a_tenth_three_times_is_three_tenths() -> None:
    budget = Budget(Decimal("0.3"))
    for _ in range(3):
        budget.settle(taken(budget, "0.1"), Decimal("0.1"))
    assert budget.spent == Decimal("0.3")
    assert budget.reserve(Decimal("1e-24")) is None


def test_a_call_of_which_nobody_knows_the_cost_counts_with_all_that_was_set_aside() -> None:
    budget = Budget(Decimal(1))
    budget.settle(taken(budget, "0.7"), None)
    assert (budget.spent, budget.reserved) == (Decimal("0.7"), 0)


def test_a_call_that_was_never_billed_gives_all_of_it_back() -> None:
    budget = Budget(Decimal(1))
    budget.settle(taken(budget, "0.7"), Decimal(0))
    assert (budget.spent, budget.available) == (0, 1)


def test_what_does_not_fit_now_may_fit_later_unless_too_much_is_spent() -> None:
    budget = Budget(Decimal(1))
    first = taken(budget, "0.6")
    assert budget.reserve(Decimal("0.5")) is None
    assert budget.may_fit_later(Decimal("0.5"))
    budget.settle(first, None)
    assert not budget.may_fit_later(Decimal("0.5"))
    assert budget.may_fit_later(Decimal("0.4"))
    assert Budget(None).may_fit_later(Decimal(10**9))


def test_a_provider_that_bills_more_than_it_can_is_counted_and_ends_the_run() -> None:
    budget = Budget(Decimal(1))
    other = taken(budget, "0.5")
    budget.settle(taken(budget, "0.5"), Decimal(3))
    assert budget.exceeded
    assert (budget.spent, budget.available) == (3, 0)
    assert budget.reserve(Decimal("0.000001")) is None
    assert budget.reserve(Decimal(0)) is None
    budget.settle(other, Decimal("0.25"))  # what was running is still counted
    assert budget.spent == Decimal("3.25")


def test_a_shortage_tells_whether_more_was_spent_than_allowed_and_why() -> None:
    budget = Budget(Decimal("1.50"))
    budget.settle(taken(budget, "1"), Decimal("1.0000"))
    assert budget.shortage == "the budget of $1.50 leaves no room for this call"
    budget.settle(taken(budget, "0.5"), Decimal("9.2000"))
    assert budget.shortage == (
        "$10.2 of a budget of $1.50 is spent, because a call cost more than it should have been able to"
    )
    assert Budget(Decimal(1), spent=Decimal(20)).shortage == "$20 of a budget of $1 is spent"


def test_an_unknown_price_is_refused_under_a_limit_with_words_that_name_the_model_and_the_key() -> None:
    budget = Budget(Decimal(5))
    with pytest.raises(OperationalError, match=r'local/m.*`prices: \{"local/m": \{input: …, output: …\}\}`') as error:
        budget.reserve(None, "local/m")
    assert error.value.exit_code == 4
    assert budget.reserved == 0
    with pytest.raises(OperationalError, match="a/x, b/y is unknown"):
        budget.require_prices(["a/x", "b/y", "a/x"])
    budget.require_prices([])


def test_without_a_limit_unknown_prices_and_any_sum_are_let_through() -> None:
    budget = Budget(None)
    budget.require_prices(["local/m"])
    unknown = budget.reserve(None, "local/m")
    assert unknown is not None
    budget.settle(unknown, None)
    assert (budget.spent, budget.available, budget.exceeded) == (0, None, False)
    budget.settle(taken(budget, "1e9"), Decimal("1e9"))
    assert budget.spent == 10**9


def test_what_earlier_calls_spent_counts_from_the_start() -> None:
    budget = Budget(Decimal(1), spent=Decimal("0.75"))
    assert budget.available == Decimal("0.25")
    assert budget.reserve(Decimal("0.26")) is None
    assert Budget(Decimal(1), spent=Decimal(2)).exceeded


def test_a_reservation_is_settled_once_and_where_it_was_made() -> None:
    budget = Budget(Decimal(1))
    reservation = taken(budget, "0.1")
    budget.settle(reservation, Decimal("0.1"))
    with pytest.raises(ValueError, match="not open in this budget"):
        budget.settle(reservation, Decimal("0.1"))
    with pytest.raises(ValueError, match="not open in this budget"):
        budget.settle(taken(Budget(None), "1"), Decimal(0))
    assert budget.spent == Decimal("0.1")


@pytest.mark.parametrize("wrong", ["-0.01", "NaN", "Infinity"])
def test_amounts_that_are_no_amounts_are_refused_and_change_nothing(wrong: str) -> None:
    budget = Budget(Decimal(1))
    reservation = taken(budget, "0.5")
    for attempt in (
        lambda: Budget(Decimal(wrong)),
        lambda: budget.reserve(Decimal(wrong)),
        lambda: budget.settle(reservation, Decimal(wrong)),
    ):
        with pytest.raises(ValueError, match="expected US dollars"):
            attempt()
    assert (budget.spent, budget.reserved) == (0, Decimal("0.5"))


def test_sums_are_exact_whatever_precision_the_caller_works_with() -> None:
    with localcontext(prec=2):
        budget = Budget(Decimal("1000000"))
        budget.settle(taken(budget, "999999.123456789"), Decimal("999999.123456789"))
        budget.settle(taken(budget, "0.000000000000000000000001"), None)
    assert budget.spent == Decimal("999999.123456789000000000000001")


class AnyOrder(RuleBasedStateMachine):
    """Calls start and end in any order; the sums are checked against fractions, which know no rounding."""

    reservations = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.limit = Decimal(50)
        self.budget = Budget(self.limit)
        self.open: list[Fraction] = []
        self.spent = Fraction(0)

    @rule(target=reservations, worst=DOLLARS)
    def start(self, worst: Decimal) -> Reservation | None:
        fits = self.spent + sum(self.open) + Fraction(worst) <= self.limit
        reservation = self.budget.reserve(worst)
        assert (reservation is not None) is fits
        if fits:
            self.open.append(Fraction(worst))
        return reservation

    @precondition(lambda self: self.open)
    @rule(reservation=consumes(reservations), share=st.decimals(0, 1, places=6), told=st.booleans())
    def end(self, reservation: Reservation | None, share: Decimal, told: bool) -> None:
        if reservation is None:
            return
        actual = reservation.amount * share if told else None
        self.budget.settle(reservation, actual)
        self.open.remove(Fraction(reservation.amount))
        self.spent += Fraction(reservation.amount if actual is None else actual)

    @invariant()
    def sums_are_right_and_within_the_limit(self) -> None:
        spent, reserved = Fraction(self.budget.spent), Fraction(self.budget.reserved)
        assert (spent, reserved) == (self.spent, sum(self.open, Fraction(0)))
        assert spent + reserved <= self.limit
        assert self.budget.available is not None
        assert Fraction(self.budget.available) == Fraction(self.limit) - spent - reserved
        assert not self.budget.exceeded


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=50, stateful_step_count=25)


@given(st.integers(0, 2**32))
def test_threads_together_never_pass_the_limit_and_lose_no_cent(seed: int) -> None:
    budget = Budget(Decimal(3))
    settled: list[Decimal] = []
    passed: list[Decimal] = []

    def worker(own: int) -> None:
        draw = random.Random(seed * 8 + own)
        for _ in range(30):
            worst = Decimal(draw.randrange(1, 10**9)).scaleb(-10)
            reservation = budget.reserve(worst)
            if reservation is None:
                continue
            if draw.random() < 0.1:
                time.sleep(0)  # lets another thread in
            actual = worst * draw.randrange(0, 101) / 100
            budget.settle(reservation, actual)
            settled.append(actual)
            if budget.spent + budget.reserved > 3:
                passed.append(budget.spent)

    threads = [threading.Thread(target=worker, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert passed == []
    assert budget.reserved == 0
    assert Fraction(budget.spent) == sum(map(Fraction, settled))
    assert budget.spent <= 3


def test_threads_that_want_the_last_dollar_get_it_once() -> None:
    budget = Budget(Decimal(1))
    ready = threading.Barrier(8)
    won: list[Reservation] = []

    def worker() -> None:
        ready.wait()
        for _ in range(200):
            reservation = budget.reserve(Decimal(1))
            if reservation is not None:
                won.append(reservation)

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
