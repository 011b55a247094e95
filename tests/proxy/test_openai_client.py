"""The official OpenAI client works through the proxy as it does against one engine."""

from collections.abc import Iterator

import openai
import pytest
from chat import data_url
from openai import OpenAI
from setups import Trio


@pytest.fixture
def client(trio: Trio) -> Iterator[OpenAI]:
    url = f"http://127.0.0.1:{trio.proxy.port}/v1"
    with OpenAI(base_url=url, api_key="none", max_retries=0, timeout=20) as made:
        yield made


def test_chat(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="stub", messages=[{"role": "user", "content": "hi"}], max_tokens=3
    )
    assert answer.choices[0].message.content == " 0 1 2"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert answer.model_extra is not None
    assert not {"kv_transfer_params", "ec_transfer_params"} & set(answer.model_extra)


def test_a_stream_with_an_image_and_usage(client: OpenAI, trio: Trio) -> None:
    stream = client.chat.completions.create(
        model="stub",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": data_url("for the client")}},
                    {"type": "text", "text": "what?"},
                ],
            }
        ],
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", 0
    for event in stream:
        text += "".join(choice.delta.content or "" for choice in event.choices)
        usage += event.usage.completion_tokens if event.usage else 0
    assert text == " 0 1 2 3 4"
    assert usage == 5
    assert len(trio.encoder.requests()) == 1


def test_completions_and_models(client: OpenAI) -> None:
    answer = client.completions.create(model="stub", prompt="once", max_tokens=2)
    assert answer.choices[0].text == " 0 1"
    assert [model.id for model in client.models.list()] == ["stub"]


def test_refusals_become_the_clients_errors(client: OpenAI, trio: Trio) -> None:
    with pytest.raises(openai.BadRequestError, match="kv_transfer_params"):
        client.chat.completions.create(
            model="stub", messages=[], extra_body={"kv_transfer_params": {}}
        )
    trio.decode.always(do="status", code=500)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="stub", messages=[{"role": "user", "content": "hi"}])


def test_an_error_in_a_stream_is_raised(client: OpenAI, trio: Trio) -> None:
    trio.decode.next({"do": "close", "after_events": 2, "interval_ms": 10})
    stream = client.chat.completions.create(
        model="stub", messages=[{"role": "user", "content": "hi"}], max_tokens=9, stream=True
    )
    parts: list[str] = []
    with pytest.raises(openai.APIError):
        parts.extend(event.choices[0].delta.content or "" for event in stream)
    assert "".join(parts) == " 0 1"
