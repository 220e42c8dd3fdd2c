"""A task as routing sees it: what kind it is, how hard, what it needs."""

import math
from zlib import crc32

from msgspec import Struct

from flywheel.records import Complexity

REQUIREMENT_FEATURES = 16
"""Requirements are hashed into so many features: a catalogue of tools may have thousands of names."""
LENGTH_SCALE = math.log1p(10_000)


class RoutedTask(Struct, frozen=True, kw_only=True):
    """What is known of a task before anybody does it.

    Attributes:
        task_type: what routing learns about separately.
        complexity: see ``assess_complexity``.
        requirements: what it uses, for example ``tool:search``; features of the contextual strategy.
        languages: programming or human languages it is in; matched with the agents' languages.
        specializations: what an agent should be specialized in; matched with the agents'.
        must_have: specializations without which an agent may not have the task: a hard limit.
        needs: options of the generation that an agent must be able to honour: the same.
        length: characters of its description.
        embedding: numbers about the task that somebody else computed; always as many, about 1 in size, or none.
    """

    task_type: str
    complexity: Complexity = Complexity.STANDARD
    requirements: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    specializations: tuple[str, ...] = ()
    must_have: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    length: int = 0
    embedding: tuple[float, ...] = ()


def assess_complexity(
    *, tools: int = 0, context_tokens: int = 0, steps: int = 0, turns: int = 1, external_calls: bool = False
) -> Complexity:
    """The task's complexity by the rules of SPEC section 7."""
    if tools >= 3 or context_tokens >= 5_000 or steps >= 5 or (turns > 1 and external_calls):
        return Complexity.COMPLEX
    if tools >= 1 or context_tokens >= 1_000 or steps >= 2 or external_calls:
        return Complexity.STANDARD
    return Complexity.TRIVIAL


def features_of(task: RoutedTask) -> dict[str, float]:
    """The task as named numbers, each between about −1 and 1, of which those that are 0 may be absent."""
    features = {
        "always": 1.0,
        f"type:{task.task_type}": 1.0,
        f"complexity:{task.complexity}": 1.0,
        "length": math.log1p(task.length) / LENGTH_SCALE,
        "requirements": math.log1p(len(task.requirements)) / math.log1p(10),
    }
    features |= {f"needs:{crc32(name.encode()) % REQUIREMENT_FEATURES}": 1.0 for name in task.requirements}
    features |= {f"embedding:{number}": value for number, value in enumerate(task.embedding)}
    return features
