"""What is sent to a model before it was ever called: today's facts by name, and the overrides of radar.yaml."""

import pytest
from pydantic import ValidationError

from radar_dagster.models.capabilities import Capabilities, Overrides, capabilities_of
from radar_dagster.models.endpoints import Endpoint

OPENAI = Endpoint(base_url="https://api.openai.com/v1")
ANTHROPIC = Endpoint(protocol="anthropic", base_url="https://api.anthropic.com")
LOCAL = Endpoint(base_url="http://localhost:8000")


@pytest.mark.parametrize("model", ["o3", "o4-mini", "gpt-5", "gpt-6-luna", "gpt-5.1-mini", "gpt-10", "ft:o4-mini:me"])
def test_openai_models_that_reason_take_an_effort_and_no_temperature(model: str) -> None:
    known = capabilities_of(OPENAI, model)
    assert (known.temperature, known.logprobs, known.effort) == (False, False, True)
    assert known.max_tokens_field == "max_completion_tokens"
    assert known.batch


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "gpt-35-turbo", "ft:gpt-4o:me"])
def test_other_openai_models_take_a_temperature_and_no_effort(model: str) -> None:
    known = capabilities_of(OPENAI, model)
    assert (known.temperature, known.logprobs, known.effort) == (True, True, False)


def test_claude_takes_no_temperature_at_its_own_address() -> None:
    known = capabilities_of(ANTHROPIC, "claude-sonnet-5")
    assert known == Capabilities(temperature=False, logprobs=False)


def test_what_is_not_known_of_a_local_server_is_tried_but_batches() -> None:
    assert capabilities_of(LOCAL, "o3") == Capabilities(batch=False)
    claude = Endpoint(protocol="anthropic", base_url="http://localhost:8000")
    assert capabilities_of(claude, "any") == Capabilities(logprobs=False, batch=False)


def test_models_on_azure_are_openais() -> None:
    azure = Endpoint(base_url="https://team.openai.azure.com", api_version="2024-10-21")
    assert capabilities_of(azure, "o3") == Capabilities(
        temperature=False, logprobs=False, batch=False, reasons=True, max_tokens_field="max_completion_tokens"
    )


def test_overrides_win_and_later_patterns_over_earlier_ones() -> None:
    endpoint = Endpoint(
        base_url="http://localhost:8000",
        capabilities={
            "qwen*": Overrides(temperature=False, effort=False),
            "qwen-big": Overrides(temperature=True, max_tokens_field="max_completion_tokens"),
            "other": Overrides(structured_output=False),
        },
    )
    known = capabilities_of(endpoint, "qwen-big")
    assert known == Capabilities(effort=False, batch=False, max_tokens_field="max_completion_tokens")
    assert not capabilities_of(endpoint, "qwen-small").temperature
    assert capabilities_of(endpoint, "mistral") == Capabilities(batch=False)


def test_an_override_with_a_typo_is_refused() -> None:
    with pytest.raises(ValidationError):
        Overrides.model_validate({"temprature": False})
