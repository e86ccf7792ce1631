"""The settings of an endpoint: its address in both protocols, the variable of its key, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from radar_dagster.errors import OperationalError
from radar_dagster.models.endpoints import BUILT_IN, OFFICIAL, Endpoint

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("HTTPS://API.OpenAI.com:443/v1", "https://api.openai.com/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
        ("https://team.openai.azure.com", "https://team.openai.azure.com/openai/v1"),
        ("https://team.openai.azure.com/openai", "https://team.openai.azure.com/openai/v1"),
        ("https://team.openai.azure.com/openai/v1/", "https://team.openai.azure.com/openai/v1"),
    ],
)  # fmt: skip
def test_an_openai_address_may_leave_v1_out(written: str, used: str) -> None:
    assert Endpoint(base_url=written).url == used


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000"),
        ("https://gateway.example/anthropic/v1", "https://gateway.example/anthropic"),
        ("https://gateway.example/anthropic", "https://gateway.example/anthropic"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com"),
    ],
)
def test_an_anthropic_address_may_have_v1(written: str, used: str) -> None:
    assert Endpoint(protocol="anthropic", base_url=written).url == used


@pytest.mark.parametrize("written", ["", "/", "/openai", "/openai/", "/openai/v1", "/v1"])
def test_a_dated_azure_api_is_reached_by_its_resource(written: str) -> None:
    endpoint = Endpoint(base_url=f"https://team.openai.azure.com{written}", api_version="2024-10-21")
    assert endpoint.url == "https://team.openai.azure.com"
    assert endpoint.is_azure


@pytest.mark.parametrize("seconds", [0, -1, 3601, 1e300, float("inf"), float("nan")])
def test_a_pause_between_looks_at_a_batch_that_is_none_or_never_ends_is_refused(seconds: float) -> None:
    with pytest.raises(ValidationError, match="batch_poll_s"):
        Endpoint(batch_poll_s=seconds)
    assert Endpoint(batch_poll_s=3600).batch_poll_s == 3600


def test_a_dated_api_needs_an_azure_address() -> None:
    with pytest.raises(ValidationError, match="with its base_url"):
        Endpoint(api_version="2024-10-21")
    with pytest.raises(ValidationError, match="protocol openai"):
        Endpoint(protocol="anthropic", base_url="https://x.example", api_version="2024-10-21")


@pytest.mark.parametrize(
    "written",
    ["localhost:8000", "ftp://host/v1", "https://", "https://host:port/v1", "https://host/v1?key=secret",
     "https://host/v1#x", "https://user:secret@host/v1", "https://secret@host", "https://ho st/v1", "http://[::1",
     "https://host:99999/"],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_being_repeated(written: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Endpoint(base_url=written)
    assert "expected an address" in (words := caught.value.errors()[0]["msg"])
    assert "secret" not in words


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        endpoint = Endpoint(base_url=text)
    except ValidationError:
        return
    assert endpoint.url.startswith(("http://", "https://"))
    again = Endpoint(base_url=endpoint.url)
    assert again.url == endpoint.url


@pytest.mark.parametrize("written", ["sk-abc-123", "MY KEY", "1KEY", ""])
def test_a_key_in_place_of_its_variable_is_refused_without_being_repeated(written: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Endpoint(api_key_env=written)
    assert "name of an environment variable" in caught.value.errors()[0]["msg"]
    assert "sk-abc-123" not in caught.value.errors()[0]["msg"]


def test_the_official_addresses_want_the_usual_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, variable in (("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")):
        endpoint = BUILT_IN[name]
        assert endpoint.url == OFFICIAL[endpoint.protocol]
        assert endpoint.is_official
        assert endpoint.takes_environment
        with pytest.raises(OperationalError, match=f"endpoint {name}: no key; set the environment variable {variable}"):
            endpoint.api_key(name)
        monkeypatch.setenv(variable, " k-1 \n")
        assert endpoint.api_key(name) == "k-1"


def test_an_address_of_ones_own_wants_a_key_only_where_it_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-strangers")
    assert Endpoint(base_url="http://localhost:8000").api_key("local") is None
    named = Endpoint(base_url="http://localhost:8000", api_key_env="LOCAL_KEY")
    with pytest.raises(OperationalError, match="LOCAL_KEY"):
        named.api_key("local")
    monkeypatch.setenv("LOCAL_KEY", "mine")
    assert named.api_key("local") == "mine"


def test_a_key_that_no_header_can_carry_is_refused_without_being_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("sk-ключ", "sk one two", "a\nb"):
        monkeypatch.setenv("OPENAI_API_KEY", value)
        with pytest.raises(OperationalError, match="OPENAI_API_KEY holds no key") as caught:
            BUILT_IN["openai"].api_key("openai")
        assert value not in str(caught.value)


def test_the_sdks_variables_go_with_its_own_key_and_address_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Endpoint(base_url="https://api.openai.com").takes_environment
    assert not Endpoint(api_key_env="OTHER_TEAM_KEY").takes_environment
    assert not Endpoint(base_url="https://gateway.example", api_key_env="OPENAI_API_KEY").takes_environment
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway.example/v1")
    assert Endpoint().url == "http://gateway.example/v1"
    assert not Endpoint().is_official
    assert Endpoint().takes_environment
    assert Endpoint().key_variable == "OPENAI_API_KEY"


def test_an_address_from_the_environment_is_checked_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:secret@host/v1")
    with pytest.raises(OperationalError, match="OPENAI_BASE_URL") as caught:
        _ = Endpoint().url
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("http://localhost:8000/v1/chat/completions", "/chat/completions"),
        ("http://localhost:8000/v1/chat/completions/", "/chat/completions"),
        ("http://localhost:8000/v1/completions", "/completions"),
        ("https://api.openai.com/v1/responses", "/responses"),
        ("https://api.anthropic.com/v1/messages", "/messages"),
    ],
)
def test_the_address_of_a_call_is_refused_and_what_to_leave_off_is_named(
    written: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for protocol in ("openai", "anthropic"):
        with pytest.raises(ValidationError, match=f"leave off {part}"):
            Endpoint(protocol=protocol, base_url=written)  # type: ignore[arg-type]
    monkeypatch.setenv("OPENAI_BASE_URL", written)
    with pytest.raises(OperationalError, match=f"OPENAI_BASE_URL: .*leave off {part}"):
        _ = Endpoint().url


@pytest.mark.parametrize("name", ["api_version", "deployment"])
def test_an_empty_name_is_none(name: str) -> None:
    with pytest.raises(ValidationError, match="at least 1 character"):
        Endpoint.model_validate({"base_url": "https://team.openai.azure.com", name: ""})
