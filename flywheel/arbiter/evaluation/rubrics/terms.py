"""The functions that rubrics name: from what is known of an answer to one score, 0–1, each registered by its name.

Other packages add theirs by the entry point group ``flywheel.rubric_terms``.
"""

import importlib.metadata
from collections.abc import Callable
from functools import lru_cache

from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS
from flywheel.arbiter.evaluation.rewards import tool_reward
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.errors import ConfigurationError
from flywheel.records import Complexity

TermFunction = Callable[[Evidence], float]
GROUP = "flywheel.rubric_terms"
PARTIAL_CREDIT = 0.5
HALF_SCORE_USD = 0.01


def written_as_asked(evidence: Evidence) -> float:
    """1 as asked, 0.5 found inside other text, 0 nothing of use; the mean over the turns."""
    return evidence.format


def right_calls(evidence: Evidence) -> float:
    """Share of the tool calls that are right; 1 where the task has no tools."""
    return evidence.tool


def well_used_tools(evidence: Evidence) -> float:
    """0.4 choice + 0.3 format + 0.2 utility + 0.1 error handling (SPEC section 8); 1 where no tool was called.

    Utility is the share of calls that no earlier one had made already; errors are handled where a call that went
    wrong is followed by another one than itself.
    """
    calls = evidence.calls
    if not calls:
        return evidence.tool
    made = [(made.call.name, made.call.arguments) for made in calls]
    failed = [index for index, call in enumerate(calls[:-1]) if not call.right]
    handled = sum(made[index + 1] != made[index] for index in failed)
    return tool_reward(
        choice=evidence.tool,
        format_score=evidence.format,
        utility=len(set(made)) / len(made),
        error_handling=handled / len(failed) if failed else 1.0,
    )


def work_done(evidence: Evidence) -> float:
    """1 where every check was passed, else half the share that is done: wrong answers still have an order to learn."""
    return 1.0 if evidence.passed else PARTIAL_CREDIT * evidence.done


def all_or_nothing(evidence: Evidence) -> float:
    """1 where every check was passed, else 0."""
    return float(evidence.passed)


def nothing_needless(evidence: Evidence) -> float:
    """Share of what was done that was needed: calls, changed lines, turns, as the task has it."""
    return evidence.needed


def thrift(evidence: Evidence) -> float:
    """1 for free, less with tokens and price."""
    return cost_score(evidence.complexity, tokens_used=evidence.tokens_used, cost_usd=evidence.cost_usd)


def nothing_unsafe(evidence: Evidence) -> float:
    """0 where something happened, or was said, that must not."""
    return evidence.safety


TERM_FUNCTIONS: dict[str, TermFunction] = {
    function.__name__: function
    for function in (
        written_as_asked,
        right_calls,
        well_used_tools,
        work_done,
        all_or_nothing,
        nothing_needless,
        thrift,
        nothing_unsafe,
    )
}
"""Our own, by name."""


def cost_score(complexity: Complexity, *, tokens_used: int, cost_usd: float) -> float:
    """1 / (1 + tokens / budget + cost / $0.01): 1 for free, ½ when all tokens of the task's budget are used.

    Tokens count even where they have no price, because they cost time; the budget is that of SPEC section 7.
    """
    return 1.0 / (1.0 + tokens_used / THINKING_BUDGET_TOKENS[complexity] + cost_usd / HALF_SCORE_USD)


def term_names() -> tuple[str, ...]:
    """Every function there is, those of other packages last."""
    others = (entry.name for entry in importlib.metadata.entry_points(group=GROUP))
    return (*TERM_FUNCTIONS, *(name for name in others if name not in TERM_FUNCTIONS))


@lru_cache(maxsize=256)
def term_function(name: str) -> TermFunction:
    """The function of a name.

    Raises:
        ConfigurationError: there is none, or it cannot be loaded.
    """
    if name in TERM_FUNCTIONS:
        return TERM_FUNCTIONS[name]
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        return _of_entry_point(entry)
    raise ConfigurationError(
        f"there is no term function {name!r}; there are {', '.join(term_names())}, and other packages add theirs by "
        f"the entry point group {GROUP}"
    )


def _of_entry_point(entry: importlib.metadata.EntryPoint) -> TermFunction:
    try:
        function = entry.load()
    except Exception as error:
        raise ConfigurationError(f"the term function {entry.name} ({entry.value}) cannot be loaded: {error}") from error
    if not callable(function):
        raise ConfigurationError(f"the term function {entry.name} ({entry.value}) is no function but {function!r}")
    term: TermFunction = function
    return term
