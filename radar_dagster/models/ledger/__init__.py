"""The call ledger: where every finished call is kept, found again and added up.

Which module to open: `entries.py` for what a row holds, `ledger.py` for what can be asked, `writer.py` for committing
from asyncio, `calls.py`, `claims.py` and `batches.py` for the statements, `schema.py` for the tables, `store.py` for
SQLite and PostgreSQL. `Ledger` and `Writer` bring SQLAlchemy with them, so they are imported on first use.
"""

from typing import TYPE_CHECKING, Any

from radar_dagster.models.ledger.entries import Batch, BatchItem, Entry, Spent, TallyRow, batch_claim

if TYPE_CHECKING:
    from radar_dagster.models.ledger.ledger import Ledger
    from radar_dagster.models.ledger.writer import Writer

__all__ = ["Batch", "BatchItem", "Entry", "Ledger", "Spent", "TallyRow", "Writer", "batch_claim"]


def __getattr__(name: str) -> Any:
    if name == "Ledger":
        from radar_dagster.models.ledger.ledger import Ledger

        return Ledger
    if name == "Writer":
        from radar_dagster.models.ledger.writer import Writer

        return Writer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
