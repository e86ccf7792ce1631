"""Batches in the ledger: what was handed in to a provider, so that a killed run finds it again.

A batch is noted before it is submitted (its token then finds it at the provider, should we never learn its id), and
ends in the transaction that stores its results. Here: the statements. Not here: talking to a provider.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, insert, select, update

from radar_dagster.models.ledger.entries import Batch, BatchItem, BatchState, safe_text, values
from radar_dagster.models.ledger.schema import BATCH_ITEMS, BATCHES, chunks, prefer_indices

_OPEN = BATCHES.c.state.in_(["submitting", "submitted"])


def record(connection: Connection, batch: Batch) -> None:
    """Note a batch and its items."""
    row = {name: getattr(batch, name) for name in BATCHES.c.keys()}  # noqa: SIM118 - columns are no mapping
    connection.execute(insert(BATCHES), row)
    if batch.items:
        connection.execute(insert(BATCH_ITEMS), [{"token": batch.token, **values(item)} for item in batch.items])


def note_provider_id(connection: Connection, token: str, provider_id: str) -> None:
    """The batch was taken by the provider, who calls it this."""
    batch = update(BATCHES).where(BATCHES.c.token == token, _OPEN)
    connection.execute(batch, {"state": "submitted", "provider_id": safe_text(provider_id)})


def finish(connection: Connection, token: str, state: BatchState) -> bool:
    """Give an open batch its last state; false when it is not open (any more)."""
    return bool(connection.execute(update(BATCHES).where(BATCHES.c.token == token, _OPEN), {"state": state}).rowcount)


def still_open(connection: Connection, endpoint: str, model: str) -> list[Batch]:
    """The open batches of a model with their items, the oldest first."""
    wanted = _OPEN & (BATCHES.c.endpoint == endpoint) & (BATCHES.c.model == model)
    items: dict[str, list[BatchItem]] = {}
    tokens = select(BATCHES.c.token).where(wanted)
    for token, *rest in connection.execute(
        select(BATCH_ITEMS.c.token, BATCH_ITEMS.c.custom_id, BATCH_ITEMS.c.key, BATCH_ITEMS.c.request)
        .where(BATCH_ITEMS.c.token.in_(tokens))
        .order_by(BATCH_ITEMS.c.custom_id)
    ):
        custom_id, key, request = rest
        items.setdefault(token, []).append(BatchItem(custom_id=custom_id, key=key, request=request))
    rows = connection.execute(select(BATCHES).where(wanted).order_by(BATCHES.c.created, BATCHES.c.token))
    return [Batch(**row._mapping, items=tuple(items.get(row.token, ()))) for row in rows]


def any_open(connection: Connection) -> bool:
    """Whether there is an open batch."""
    return connection.scalar(select(BATCHES.c.token).where(_OPEN).limit(1)) is not None


def tokens_of(connection: Connection, keys: Iterable[str]) -> dict[str, str]:
    """The newest open batch that holds each key, where there is one."""
    found: dict[str, str] = {}
    prefer_indices(connection)
    for chunk in chunks(keys):
        statement = (
            select(BATCH_ITEMS.c.key, BATCH_ITEMS.c.token)
            .join(BATCHES, BATCHES.c.token == BATCH_ITEMS.c.token)
            .where(BATCH_ITEMS.c.key.in_(chunk), _OPEN)
            .order_by(BATCHES.c.created, BATCHES.c.token)
        )
        found.update((key, token) for key, token in connection.execute(statement))
    return found
