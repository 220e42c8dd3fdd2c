"""How an answer is to be generated, as who asks wants it: the one shape that tasks carry and all agents get."""

from typing import Any, Literal

from msgspec import Struct

Dialect = Literal["text", "chat"]
"""How tools and their calls are written. ``text``: in words, within the prompt and the answer, as benchmarks are asked.
``chat``: beside the words, as chat completions have them."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "temperature": (1, 1.0),
    "top_p": (1, 1.0),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "parallel_tool_calls": (True,),
    "tool_choice": ("auto", "none"),
    "response_format": ({"type": "text"},),
}
"""Values that ask for nothing which every agent would not do anyway."""


HINTS = frozenset({"user", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
"""Further parameters that an endpoint may go by, and that change no answer: agents without them lack nothing."""


class GenerationOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of the generation; what is absent is the agent's own way. Names and values are OpenAI's.

    Attributes:
        temperature: of the sampling, 0–2.
        top_p: mass of the nucleus, 0–1.
        max_tokens: longest answer, in tokens.
        max_completion_tokens: the same with reasoning, under the name that newer endpoints ask for.
        stop: texts before which the answer ends.
        seed: of the sampling.
        presence_penalty: −2 to 2.
        frequency_penalty: −2 to 2.
        response_format: ``json_object`` or ``json_schema`` with its schema.
        tool_choice: ``none``, ``auto``, ``required`` or one function.
        parallel_tool_calls: whether there may be several calls at once.
        extra: further parameters for endpoints that know them, by their names there.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_format: dict[str, Any] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    extra: dict[str, Any] = {}

    def given(self) -> dict[str, Any]:
        """What is asked for, by name; those of ``extra`` under their own names."""
        named = {name: getattr(self, name) for name in self.__struct_fields__ if name != "extra"}
        return {name: value for name, value in named.items() if value not in (None, ())} | self.extra

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of what an agent has to be able to do for it."""
        return tuple(
            name for name, value in self.given().items() if name not in HINTS and value not in NEUTRAL.get(name, ())
        )

    @property
    def most_tokens(self) -> int | None:
        """Longest answer, in tokens; None: as long as the agent likes."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def wants_json(self) -> bool:
        """Whether the answer has to be JSON."""
        return self.response_format is not None and self.response_format.get("type") in {"json_object", "json_schema"}

    @property
    def wants_call(self) -> str | None:
        """The function that must be called, ``""`` for any one; None where none has to be."""
        if isinstance(self.tool_choice, dict):
            return str(self.tool_choice.get("function", {}).get("name", ""))
        return "" if self.tool_choice == "required" else None


NO_OPTIONS = GenerationOptions()
