"""What judges are shown: untrusted text, marked off so that nothing in it can pass for the judge's instructions."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Self

from msgspec import Struct

from flywheel.arbiter.agents.strategy import Answer
from flywheel.records import Message, ToolCall
from flywheel.tasks.prompt import signature
from flywheel.tasks.source import AgentTask

SPECIAL_TOKENS = re.compile(
    r"<\|[^|<>\n]{1,40}\|>"  # ChatML, Llama 3, Phi
    r"|</?s>|\[/?INST\]|<</?SYS>>"  # Llama 2, Mistral
    r"|</?(?:start_of_turn|end_of_turn|bos|eos|think)>"  # Gemma, reasoning models
    r"|<｜[^｜\n]{1,40}｜>"  # DeepSeek
)
BREAK = "\N{WORD JOINER}"
SURROGATES = re.compile(r"[\ud800-\udfff]")


class Material(Struct, frozen=True, kw_only=True):
    """A task in words, with all that it came with, and an answer to it."""

    task: str
    answer: str

    @classmethod
    def of(cls, task: AgentTask, answer: Answer) -> Self:
        """An agent's answer, with the tools that it had and the calls that it made."""
        tools = "\n".join(f"- {signature(tool)}" for tool in task.tools)
        asked = conversation(task.question)
        return cls(
            task=f"{asked}\n\ntools that may be called:\n{tools}" if tools else asked,
            answer=_with_calls(answer.text, answer.tool_calls),
        )

    @property
    def characters(self) -> int:
        """How long it is."""
        return len(self.task) + len(self.answer)

    @property
    def digest(self) -> bytes:
        """Of task and answer, apart."""
        return digest_of(self.task, self.answer)


def conversation(messages: Sequence[Message]) -> str:
    """A conversation as one text: each message under a line with its role, calls of tools as they were made."""
    return "\n\n".join(_said(message) for message in messages)


def digest_of(*texts: str) -> bytes:
    """Of several texts, so that no other division of the same characters has it."""
    whole = blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        whole.update(len(encoded).to_bytes(8, "big"))
        whole.update(encoded)
    return whole.digest()


def boundary_of(*texts: str) -> str:
    """A mark that cannot stand in these texts: their digest. Whoever writes one of them cannot know it beforehand."""
    return digest_of(*texts).hex()


def shown(text: str) -> str:
    """The text as a judge is shown it: tokens that open and close messages are broken by an invisible character.

    A local model would otherwise read ``<|im_end|>`` in an answer as the end of the user's message.
    """
    broken = SPECIAL_TOKENS.sub(lambda found: found[0][0] + BREAK + found[0][1:], text)
    return SURROGATES.sub("\N{REPLACEMENT CHARACTER}", broken)


def _said(message: Message) -> str:
    name = f" {message.name}" if message.name else ""
    return f"{message.role}{name}:\n{_with_calls(message.content or '', message.tool_calls)}"


def _with_calls(text: str, calls: Sequence[ToolCall]) -> str:
    return "\n".join([*([text] if text else []), *(f"calls {call.name}({call.arguments})" for call in calls)])
