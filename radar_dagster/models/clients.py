"""What a client of a hosted model must be able to do, whatever protocol it speaks.

Not here: the clients themselves (`providers/openai.py`, `providers/anthropic.py`), and when they are called
(`driver.py`, `batch.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Protocol

from radar_dagster.models.capabilities import Capabilities
from radar_dagster.models.exchange import CallFailed, Completion, Exchange


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What the provider lists of a model; None where it does not tell.

    `listed` is false when the endpoint lists models and this is none of them, None when it lists none at all. Either
    way it may answer: many servers don't list all that they know. `denied` are the words of an endpoint that lists
    others and, asked for this model's page, says that it has no such model.
    """

    listed: bool | None
    capabilities: Mapping[str, bool]
    lifecycle: str | None = None
    retires: date | None = None
    denied: str | None = None


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """Where a batch stands. `failed` means that no result will come; `message` says why, in the provider's words."""

    state: Literal["running", "ended", "failed"]
    done: int
    total: int
    message: str | None = None


class Client(Protocol):
    """One model at one endpoint, used inside one event loop at a time."""

    @property
    def endpoint_name(self) -> str:
        """The name of its entry under `endpoints:`."""

    @property
    def model(self) -> str:
        """The model's own name; a deployment may have another one on the wire."""

    @property
    def capabilities(self) -> Capabilities:
        """What is sent to the model now: what was known of it, less what it has refused in this run."""

    @property
    def dropped(self) -> Mapping[str, str]:
        """Parameters that the model has refused -> the endpoint's words."""

    def parameters(self, exchange: Exchange) -> Mapping[str, Any]:
        """What would be sent now besides model and messages, in the provider's names, as `Completion.sent` tells it.

        Results of batches don't tell what was sent, so this is recorded when a batch is handed in.
        """

    async def send(self, exchange: Exchange) -> Completion:
        """One call, never repeated by the SDK. Raises CallFailed, and nothing else but cancellation."""

    async def describe(self) -> ModelCard:
        """Ask the endpoint for what it lists of the model. Raises CallFailed."""

    async def submit_batch(self, items: Sequence[tuple[str, Exchange]], token: str) -> str:
        """Hand in calls under ids of ours ([A-Za-z0-9_-]{1,64}, each once); returns the provider's id of the batch.

        `token` marks the batch as ours where the protocol has a place for it. Raises CallFailed.
        """

    async def find_batch(
        self, token: str, since: float, ids: Collection[str] = (), known: Collection[str] = ()
    ) -> str | None:
        """The id of a batch that was handed in with this token after `since` (Unix seconds) and never noted by us.

        `ids` are all of its calls', for protocols that have no marks; `known` are batches that it can't be.
        Raises CallFailed.
        """

    async def poll_batch(self, batch_id: str) -> BatchStatus:
        """Where a batch stands. Raises CallFailed."""

    def batch_results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | CallFailed]]:
        """The results that there are, by our ids and each id once; `Completion.sent` is empty.

        Calls that expired or were cancelled are CallFailed (transient) or missing. Lines that can't be read are left
        out. Raises CallFailed when the results can't be fetched, also in the middle.
        """

    async def cancel_batch(self, batch_id: str) -> None:
        """Ask for the end of a batch; results that exist stay readable. Raises CallFailed."""

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
