"""Before the first paid call: does every hosted model seem to be there, by what its endpoint tells for nothing?

A wrong key, an address at which nobody answers and a model that its endpoint denies end an audit here, before the
probes of the one model are paid and the other one turns out not to exist. What only a call can tell is told as a note.

Here: what follows from a look-up. Not here: looking up (`providers/`), which models an audit calls (`stock.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from radar_dagster.errors import OperationalError
from radar_dagster.models.clients import ModelCard
from radar_dagster.models.exchange import CallFailed, Trouble
from radar_dagster.models.hosted import HostedModel

#: A listing that takes longer tells nothing: a server may be busy loading a model.
_LONGEST_S = 20.0
#: Keys may be allowed to call models and not to list them.
_NO_RIGHT = re.compile(r"\bscopes?\b|permission", re.IGNORECASE)

#: Why an audit can't begin, or what should be known before it does; at most one of the two.
_Finding = tuple[str | None, str | None]


def look_up(models: Iterable[HostedModel]) -> list[str]:
    """Ask every endpoint for each of its models, once and side by side; calls no model. Returns notes.

    OperationalError with everything that is wrong: a key that is refused, an address where nobody answers, a model that
    its endpoint says it does not have. A model that is merely not listed may answer: that is a note.
    """
    asked = {(each.endpoint_name, each.name, each.wire_name): each for each in models if each.endpoint.look_up}
    if not asked:
        return []
    for model in asked.values():
        model.client()  # loads an SDK, which may take seconds: not on the time of a look-up
    findings = asyncio.run(_findings(list(asked.values())))
    errors = list(dict.fromkeys(error for error, _ in findings if error is not None))
    if errors:
        raise OperationalError("; ".join(errors))
    return [note for _, note in findings if note is not None]


async def card_of(model: HostedModel) -> ModelCard:
    """What the endpoint lists of a model. Raises OperationalError without a key, and CallFailed."""
    model.endpoint.api_key(model.endpoint_name)
    client = model.client()
    try:
        return await client.describe()
    finally:
        await client.close()


async def _findings(models: Sequence[HostedModel]) -> list[_Finding]:
    return list(await asyncio.gather(*map(_finding, models)))


async def _finding(model: HostedModel) -> _Finding:
    try:
        async with asyncio.timeout(_LONGEST_S):
            return _by_card(model, await card_of(model))
    except CallFailed as failure:
        return _by_failure(failure)
    except TimeoutError:
        return None, f"{model.spec.model}: could not be looked up: no reply within {_LONGEST_S:g} s"


def _by_card(model: HostedModel, card: ModelCard) -> _Finding:
    if card.denied is not None:
        advice = f"correct its name in radar.yaml, or set `look_up: false` under endpoints.{model.endpoint_name}"
        return f"{card.denied}; {advice} if it answers all the same", None
    return None, None if card.listed else f"{model.spec.model}: {not_listed(model, card)}"


def not_listed(model: HostedModel, card: ModelCard) -> str:
    """What it means that a model was not found in the list, for people."""
    if card.listed is None:
        return f"{model.endpoint.url} answers, but lists no models; if calls fail, check base_url"
    return f"{model.endpoint.url} answers, but does not list {model.wire_name}, which may be there all the same"


def _by_failure(failure: CallFailed) -> _Finding:
    refused = failure.trouble is Trouble.FATAL and failure.status != 403 and not _NO_RIGHT.search(failure.message)
    if refused or failure.trouble is Trouble.UNREACHABLE:
        return failure.message, None
    return None, f"{failure.message} (when its list of models was asked for; calls may go through all the same)"
