"""Chat completions, asked by OpenAI's own client."""

import openai

from tests.api.chat.model import Model

ASKED = [{"role": "user", "content": "Say hello."}]


def test_any_client_gets_an_answer_by_a_change_of_its_base_url(client: openai.OpenAI, model: Model) -> None:
    raw = client.chat.completions.with_raw_response.create(model="auto", messages=ASKED)  # type: ignore[arg-type]
    answer = raw.parse()
    assert answer.choices[0].message.content == "Hello there, friend"
    assert (answer.choices[0].finish_reason, answer.model, answer.object) == ("stop", "small", "chat.completion")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (31, 12, 43)
    assert raw.headers["x-flywheel-agent"] == "small"
    assert raw.headers["x-flywheel-strategy"] == "multi-armed-bandit"
    assert float(raw.headers["x-flywheel-propensity"]) == 1.0
    assert raw.headers["x-flywheel-task-id"] == answer.id


def test_a_stream_comes_piece_by_piece_and_ends_with_its_usage(client: openai.OpenAI, model: Model) -> None:
    stream = client.chat.completions.create(
        model="auto",
        messages=ASKED,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert texts == ["", "Hello", " there,", " friend", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 43
    assert model.bodies[0]["stream_options"] == {"include_usage": True}
