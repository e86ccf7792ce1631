"""The rows of the ledger: putting finished calls in, finding answers and interrupted chains, adding up.

Here: the statements, each on a connection that somebody else has opened. Not here: transactions (`store.py`), batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Row, and_, case, func, insert, select

from radar_dagster.models.ledger.entries import ENTRY_FIELDS, Entry, Spent, TallyRow, values
from radar_dagster.models.ledger.schema import CALLS, chunks, prefer_indices
from radar_dagster.models.replies import State

_GROUP = (CALLS.c.role, CALLS.c.endpoint, CALLS.c.model, CALLS.c.mode, CALLS.c.state)
# PostgreSQL adds integers up to a Decimal: the sums are cast to the columns' own types.
_SUMMED = (
    CALLS.c.input_tokens,
    CALLS.c.output_tokens,
    CALLS.c.cached_input_tokens,
    CALLS.c.reasoning_tokens,
    CALLS.c.usd,
)
#: Paid, and to be followed by another attempt of the same chain.
_TO_BE_CONTINUED = (
    CALLS.c.state.in_([State.PARSE_ERROR.value, State.TRUNCATED.value]),
    ~CALLS.c.final,
    CALLS.c.reply.is_not(None),
)


def put(connection: Connection, entries: Sequence[Entry]) -> None:
    """Insert the entries, in this order."""
    if entries:
        text, names = _insert(connection.dialect)
        rows = [values(entry) for entry in entries]
        # Straight to the driver: this is what a run does most, and SQLAlchemy's own way takes twice as long.
        connection.exec_driver_sql(text, [tuple(map(row.get, names)) for row in rows] if names else rows)


def newest_answers(connection: Connection, keys: Iterable[str], session: str | None) -> dict[str, Entry]:
    """The newest `ok` row of each key that has one."""
    return _find(connection, keys, _newest(session, CALLS.c.state == State.OK.value))


def open_chains(connection: Connection, keys: Iterable[str], session: str | None) -> dict[str, Entry]:
    """The row from which each key's interrupted chain goes on."""
    paid, final = _newest(session, *_TO_BE_CONTINUED), _newest(session, CALLS.c.final)
    return _find(connection, keys, case((paid > func.coalesce(final, -1), paid)))


def all_rows(connection: Connection, key: str) -> list[Entry]:
    """Every row of a key, the oldest first, with their requests."""
    columns = [CALLS.c[name] for name in ENTRY_FIELDS]
    rows = connection.execute(select(*columns).where(CALLS.c.key == key).order_by(CALLS.c.id))
    return [_entry(ENTRY_FIELDS, row) for row in rows]


def keys_from(connection: Connection, digits: str, most: int) -> list[str]:
    """The keys that begin with these hexadecimal digits, so many at most."""
    # "g" comes after every digit, so that the index is used.
    begins = and_(CALLS.c.key >= digits, CALLS.c.key < f"{digits}g")
    return list(connection.scalars(select(CALLS.c.key).where(begins).distinct().order_by(CALLS.c.key).limit(most)))


def add_up(connection: Connection, **equal: str | None) -> list[TallyRow]:
    """Sums over the rows in which the given columns have the given values (None: any)."""
    unpriced = case((CALLS.c.usd.is_(None), 1), else_=0)
    at_most = func.sum(case((CALLS.c.usd.is_(None), CALLS.c.usd_at_most)))
    statement = select(
        *_GROUP,
        func.count().label("calls"),
        *(func.sum(column).cast(column.type).label(column.name) for column in _SUMMED),
        func.sum(unpriced).label("unpriced"),
        at_most.cast(CALLS.c.usd_at_most.type).label("usd_at_most"),
    )
    conditions = [CALLS.c[name] == value for name, value in equal.items() if value is not None]
    rows = connection.execute(statement.where(*conditions).group_by(*_GROUP).order_by(*_GROUP))
    return [TallyRow(**dict[str, Any](row._mapping)) for row in rows]


def spent_on(connection: Connection, keys: Iterable[str]) -> Spent:
    """What every attempt at these calls came to."""
    usd, at_most, unpriced = CALLS.c.usd, CALLS.c.usd_at_most, CALLS.c.usd.is_(None)
    sums = select(
        func.count(),
        func.coalesce(func.sum(usd), 0.0),
        func.coalesce(func.sum(case((unpriced, 1), else_=0)), 0),
        func.coalesce(func.sum(case((unpriced, at_most))), 0.0),
    )
    prefer_indices(connection)
    total = Spent()
    for chunk in chunks(keys):
        calls, known, unknown, most = connection.execute(sums.where(CALLS.c.key.in_(chunk))).one()
        total += Spent(calls, Decimal(str(known)), int(unknown), Decimal(str(most)))
    return total


@cache
def _insert(dialect: Dialect) -> tuple[str, Sequence[str]]:
    """The statement as the driver takes it, and the order of its values where they go without names."""
    compiled = insert(CALLS).compile(dialect=dialect, column_keys=list(ENTRY_FIELDS))
    return str(compiled), compiled.positiontup or ()


def _newest(session: str | None, *conditions: ColumnElement[bool]) -> ColumnElement[Any]:
    """The id of a key's newest row that meets the conditions; null where none does.

    Conditions stand here rather than beside the keys, so that no database comes to prefer the index of sessions.
    """
    if session is not None:
        conditions = (*conditions, CALLS.c.session == session)
    return func.max(case((and_(*conditions), CALLS.c.id)))


def _find(connection: Connection, keys: Iterable[str], wanted: ColumnElement[Any]) -> dict[str, Entry]:
    """The row `wanted` of each key. Requests are left out: they are most of a row, and whoever asks has them."""
    names = tuple(name for name in ENTRY_FIELDS if name != "request")
    rows = select(*(CALLS.c[name] for name in names))
    found: dict[str, Entry] = {}
    prefer_indices(connection)
    for chunk in chunks(keys):
        ids = select(wanted).where(CALLS.c.key.in_(chunk)).group_by(CALLS.c.key)
        for row in connection.execute(rows.where(CALLS.c.id.in_(ids))):
            found[row.key] = _entry(names, row, request=None)
    return found


def _entry(names: Sequence[str], row: Row[Any], **more: Any) -> Entry:
    return Entry(**dict(zip(names, row, strict=True)), **more)
