"""What a request asks of the generation, and what agents must be able to do for it."""

from flywheel.arbiter.agents.honoured import not_honoured
from flywheel.tasks.options import NO_OPTIONS, GenerationOptions


def test_only_what_is_given_is_given_and_what_is_neutral_is_no_need() -> None:
    options = GenerationOptions(temperature=0.0, top_p=1.0, stop=("END",), extra={"top_k": 3, "user": "ann"})
    assert options.given() == {"temperature": 0.0, "top_p": 1.0, "stop": ("END",), "top_k": 3, "user": "ann"}
    assert options.needed == ("temperature", "stop", "top_k")
    assert (NO_OPTIONS.given(), NO_OPTIONS.needed) == ({}, ())


def test_a_call_that_must_be_made_is_one_of_any_or_of_one_function() -> None:
    assert GenerationOptions(tool_choice="auto").wants_call is None
    assert GenerationOptions(tool_choice="required").wants_call == ""
    named = GenerationOptions(tool_choice={"type": "function", "function": {"name": "add"}})
    assert (named.wants_call, named.needed) == ("add", ("tool_choice",))


def test_local_models_honour_what_they_can_and_say_what_they_cannot() -> None:
    assert not_honoured("local", ("chat", "temperature", "response_format", "top_p")) == ("response_format", "top_p")
    assert not_honoured("openai", ("chat", "response_format", "top_k")) == ()
    assert not_honoured("reference", ("chat",)) == ("chat",)
