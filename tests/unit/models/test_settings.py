"""What the door is opened with: models, endpoints, where the ledger is, and all of it as JSON."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.capabilities import Overrides
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.prices import Price
from radar_dagster.models.settings import DoorSettings

LOCAL = Endpoint(base_url="http://127.0.0.1:8000/v1", capabilities={"qwen*": Overrides(temperature=False)})
SETTINGS = DoorSettings(
    models={
        "reader": ModelSpec(model="offline/reader"),
        "small": ModelSpec(model="local/qwen3-8b", options={"temperature": 0.5}),
        "large": ModelSpec(model="openai/gpt-6-luna@low", mode="batch"),
        "lost": ModelSpec(model="nowhere/model"),
    },
    plugins=Path("/plugins"),
    endpoints={"local": LOCAL},
    prices={"local/*": Price(input="0.1", output="1e-20")},
    ledger="/calls/ledger.sqlite",
    budget_usd=2.5,
)


def test_an_alias_stands_for_its_model() -> None:
    assert SETTINGS.spec("small").model == "local/qwen3-8b"
    with pytest.raises(BadInputError, match="no model 'tiny'; models has reader, small, large, lost"):
        SETTINGS.spec("tiny")


def test_hosted_models_have_an_endpoint_of_the_file_or_a_built_in_one_and_others_none() -> None:
    assert SETTINGS.endpoint(SETTINGS.spec("reader")) is None
    assert SETTINGS.endpoint(SETTINGS.spec("small")) == LOCAL
    official = SETTINGS.endpoint(SETTINGS.spec("large"))
    assert official is not None
    assert official.key_variable == "OPENAI_API_KEY"
    with pytest.raises(BadInputError, match=r"no endpoint 'nowhere'.*offline/….*openai/….*local/….*endpoints"):
        SETTINGS.endpoint(SETTINGS.spec("lost"))


def test_an_entry_takes_the_place_of_a_built_in_endpoint() -> None:
    proxied = SETTINGS.model_copy(update={"endpoints": {"openai": LOCAL}})
    assert proxied.endpoint(SETTINGS.spec("large")) == LOCAL


@pytest.mark.parametrize(
    ("variable", "configured", "expected"),
    [
        (None, "/calls/ledger.sqlite", "/calls/ledger.sqlite"),
        ("", "/calls/ledger.sqlite", "/calls/ledger.sqlite"),
        ("postgresql://a@b/c", "/calls/ledger.sqlite", "postgresql://a@b/c"),
        ("postgresql://a@b/c", None, None),
    ],
)
def test_the_environment_moves_a_ledger_but_makes_none(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, configured: str | None, expected: str | None
) -> None:
    monkeypatch.delenv("RADAR_LEDGER", raising=False)
    if variable is not None:
        monkeypatch.setenv("RADAR_LEDGER", variable)
    assert SETTINGS.model_copy(update={"ledger": configured}).ledger_url == expected


def test_settings_survive_json_to_the_last_digit() -> None:
    again = DoorSettings.model_validate(json.loads(json.dumps(SETTINGS.model_dump(mode="json"))))
    assert again == SETTINGS
    assert again.prices["local/*"].output == Decimal("1e-20")
