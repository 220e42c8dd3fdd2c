"""The arbiter's sections of the configuration: its agents, and what follows from how they do."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from flywheel.settings_section import Section

AgentKind = Literal["local", "reference", "openai", "python", "command"]
PromptStyle = Literal["zero-shot", "few-shot"]
LARGEST_LIMIT = 1_000_000_000
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def storable(text: str) -> str:
    """The text, if PostgreSQL can hold it.

    Raises:
        ValueError: it has NUL, or half a character of UTF-16.
    """
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a text cannot have NUL or surrogates")
    return text


Text = Annotated[str, AfterValidator(storable)]


class AgentFields(Section):
    """What every agent's profile has."""

    model_config = ConfigDict(allow_inf_nan=False)

    id: Text = Field(min_length=1, max_length=200, pattern=r"^\S+$", description="a name of its own, without spaces")
    name: Text = Field("", description="for people; empty: the id")
    model: Text = Field("", description="local: base, a folder or models:/NAME/VERSION; openai: its name there")
    model_family: Text = Field("", description="whose record a new agent begins with; empty: its model")
    task_types: tuple[Text, ...] = Field((), description="empty: all")
    languages: tuple[Text, ...] = Field((), description="programming or human languages; empty: all")
    specializations: tuple[Text, ...] = Field(("function-calling",), description="what it is specialized in")
    prompt: PromptStyle = "zero-shot"
    temperature: float = Field(0.0, ge=0, le=2)
    base_url: Text = Field("", description="openai: for example http://localhost:8000/v1")
    api_key_env: Text = Field("OPENAI_API_KEY", description="openai: the variable that holds the key")
    timeout_s: float = Field(60.0, gt=0, le=86_400, description="for one task, retries included; local: none")
    max_concurrent: int = Field(10, gt=0, le=LARGEST_LIMIT, description="calls at once in a process; local: batches")
    requests_per_minute: int | None = Field(None, gt=0, le=LARGEST_LIMIT, description="openai: not more in any minute")
    tokens_per_minute: int | None = Field(
        None, gt=0, le=LARGEST_LIMIT, description="openai: tokens in and out, not more in any minute"
    )
    usd_per_million_input_tokens: float = Field(0.0, ge=0)
    usd_per_million_output_tokens: float = Field(0.0, ge=0)
    error_rate: float = Field(0.0, ge=0, le=1, description="reference: share of answers with a wrong function name")
    version: Text = Field("1", description="what its owner calls this version of it")


class AgentSettings(AgentFields):
    """One agent that joins the registry when the platform starts."""

    kind: AgentKind = Field(description="how it is asked (docs/arbiter.md)")
    function: Text = Field("", description="python: module:function, sync or async")
    command: tuple[Text, ...] = Field((), description="command: the program and its arguments, started without a shell")

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if self.kind == "openai" and not (self.base_url.startswith(("http://", "https://")) and self.model):
            raise ValueError("an agent of kind openai needs base_url (http:// or https://) and model")
        if "@" in self.base_url.partition("://")[2].partition("/")[0]:
            raise ValueError("base_url must not hold a name or password: it is shown and kept; the key has api_key_env")
        if self.kind == "python" and not FUNCTION.fullmatch(self.function):
            raise ValueError(f"an agent of kind python needs function as module:function, not {self.function!r}")
        if self.kind == "command" and not (self.command and self.command[0]):
            raise ValueError("an agent of kind command needs command: the program and its arguments")
        return self


class CapabilitySettings(Section):
    """When measured results say that an agent can do something, or does it better or worse (docs/arbiter.md)."""

    apply: bool = Field(False, description="change profiles by what was measured; otherwise it is proposed")
    error_rate: float = Field(0.05, gt=0, lt=1, description="chance of ever saying it of an agent that did not change")
    capable_success_rate: float = Field(0.6, gt=0, lt=1, description="an agent can do what it surely succeeds at above")


class CacheSettings(Section):
    """The semantic cache: answers that are given again to tasks that ask the same."""

    enabled: bool = False
    entries: int = Field(1_000, gt=0, description="at most; the one not used for longest goes first")
    max_bytes: int = Field(100_000_000, gt=0, description="of all entries, their vectors included")
    similarity: float = Field(0.95, gt=0, le=1, description="cosine from which two texts ask the same; 1: equal ones")
    min_quality: float = Field(0.85, ge=0, le=1, description="of an answer to be kept")
    max_age_s: float = Field(86_400.0, gt=0, description="an older answer is not given again")


class ExecutionSettings(Section):
    """How a single task is run."""

    max_iterations: int = Field(3, ge=1, le=3, description="answers of one agent, each but the first after feedback")
    max_attempts: int = Field(3, ge=1, description="agents tried where one cannot answer at all")
    stop_quality: float = Field(0.85, ge=0, le=1, description="above it nothing is refined")
    cool_down_s: float = Field(60.0, ge=0, description="no escalation after one that did not help, per agent and type")
    claim_s: float = Field(30.0, gt=0, description="after which a killed runner's task may be run by another")
    kept_hours: float = Field(24.0, gt=0, description="how long a task's result is given again under its id")
    refresh_s: float = Field(0.5, ge=0, description="age at which what routing knows is read again")
    cache: CacheSettings = CacheSettings()
