"""What a look-up makes of what endpoints say of a model: an error, a note, or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from radar_dagster.errors import OperationalError
from radar_dagster.models import preflight
from radar_dagster.models.clients import ModelCard
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Trouble
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.preflight import look_up

LISTED = ModelCard(listed=True, capabilities={})


class Played(HostedModel):
    """A model whose endpoint says what is written; `asked` counts."""

    def __init__(self, name: str, says: Any, **endpoint: Any) -> None:
        super().__init__(ModelSpec(model=f"here/{name}"), "here", Endpoint(base_url="http://127.0.0.1:9", **endpoint))
        self.says = says
        self.asked = 0
        self.open = 0

    def client(self) -> Any:
        model = self

        class Client:
            async def describe(self) -> ModelCard:
                model.asked += 1
                model.open += 1
                if isinstance(model.says, float):
                    await asyncio.sleep(model.says)
                if isinstance(model.says, CallFailed):
                    raise model.says
                return model.says if isinstance(model.says, ModelCard) else LISTED

            async def close(self) -> None:
                model.open -= model.open > 0

        return Client()


def failed(trouble: Trouble, words: str, status: int | None = None) -> CallFailed:
    return CallFailed(trouble, f"endpoint here, model m: {words}", status=status)


ERRORS = {
    "a wrong key": failed(Trouble.FATAL, "HTTP 401: invalid; is the key in K right?", 401),
    "an account that can't pay": failed(Trouble.FATAL, "HTTP 402: the account can't pay", 402),
    "no way to connect": failed(Trouble.FATAL, "no way to connect: a proxy that is none"),
    "nobody there": failed(Trouble.UNREACHABLE, "no connection to http://127.0.0.1:9"),
    "another address": failed(Trouble.UNREACHABLE, "redirects to https://elsewhere", 302),
    "a model that is denied": ModelCard(listed=False, capabilities={}, denied="endpoint here, model m: no such model"),
}
NOTES = {
    "a key that may not list": failed(Trouble.FATAL, "HTTP 403: no", 403),
    "a key without a scope": failed(Trouble.FATAL, "HTTP 401: Missing scopes: api.model.read", 401),
    "busy": failed(Trouble.BUSY, "HTTP 429: slow down", 429),
    "broken": failed(Trouble.TRANSIENT, "HTTP 500: oops", 500),
    "odd": failed(Trouble.REJECTED, "HTTP 418: a teapot", 418),
    "nothing listed": ModelCard(listed=None, capabilities={}),
    "others listed": ModelCard(listed=False, capabilities={}),
}


@pytest.mark.parametrize("why", ERRORS)
def test_what_every_call_would_fail_of_is_an_error(why: str) -> None:
    model = Played("m", ERRORS[why])
    with pytest.raises(OperationalError) as caught:
        look_up([Played("fine", LISTED), model])
    assert "here" in str(caught.value)
    assert caught.value.exit_code == 4
    assert model.open == 0


@pytest.mark.parametrize("why", NOTES)
def test_what_only_a_call_can_tell_is_a_note(why: str) -> None:
    (note,) = look_up([Played("fine", LISTED), Played("m", NOTES[why])])
    assert "model m" in note or "here/m" in note


def test_everything_that_is_wrong_is_one_message_and_each_thing_is_said_once() -> None:
    models = [Played(name, ERRORS["nobody there"]) for name in ("a", "b")] + [Played("c", ERRORS["a wrong key"])]
    with pytest.raises(OperationalError) as caught:
        look_up(models)
    assert str(caught.value).count("no connection") == 1
    assert "HTTP 401" in str(caught.value)


def test_two_aliases_of_a_model_are_one_look_up_and_who_must_not_be_asked_is_not() -> None:
    first, second, mute = Played("m", LISTED), Played("m", LISTED), Played("n", ERRORS["a wrong key"], look_up=False)
    assert look_up([first, second, mute]) == []
    assert (first.asked + second.asked, mute.asked) == (1, 0)
    assert look_up([]) == []


def test_a_listing_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_LONGEST_S", 0.05)
    slow = Played("m", 30.0)
    (note,) = look_up([slow, Played("fine", LISTED)])
    assert note == "here/m: could not be looked up: no reply within 0.05 s"
    assert slow.open == 0


def test_without_a_key_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    model = Played("m", LISTED, api_key_env="NO_SUCH_KEY")
    with pytest.raises(OperationalError, match="set the environment variable NO_SUCH_KEY"):
        look_up([model])
    assert model.asked == 0
