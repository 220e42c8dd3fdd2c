"""A task that is answered from the cache: logged as that, judged anew unless it asks in the same words."""

import time

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.cache.semantic_cache import Hit
from flywheel.arbiter.evaluation.evaluator import Verdict
from flywheel.arbiter.logs import Step, no_choice
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.running.calls import CallTimeoutError, TaskCancelledError
from flywheel.arbiter.running.recording import Attempt
from flywheel.arbiter.running.task_run import Ran, TaskRun

CACHE = "semantic-cache"
"""Stands for the agent in the logs of a hit: what it does is no agent's merit."""


def answered_from_cache(run: TaskRun, hit: Hit, *, found_s: float) -> Ran | None:
    """The end of a task by an answer that was found; None where that answer will not do for this question.

    In the same words the earlier evaluation holds. In similar ones the evaluator judges the answer to this question,
    and only one that it accepts, at the quality that the cache asks for, is given. ``found_s`` is when the look-up
    began, by ``time.monotonic``.
    """
    latency_ms = max((time.monotonic() - found_s) * 1000, 0.001)
    answer = Answer(
        text=hit.answer.text,
        messages=run.task.messages,
        prompt_tokens=0,
        output_tokens=0,
        latency_ms=latency_ms,
        time_to_first_action_ms=latency_ms,
        finish_reason="stop",
    )
    verdict = Verdict(evaluation=hit.answer.evaluation) if hit.exact else _judged_anew(run, answer)
    if verdict is None:
        return None
    words = "the same words" if hit.exact else f"words that are similar by {hit.similarity:.3f}"
    decision = no_choice(
        run.task,
        agent_id=CACHE,
        tenant_id=run.parts.tenant_id,
        timestamp=run.parts.clock(),
        reason=f"{hit.answer.agent_id} answered task {hit.answer.task_id} in {words}; no agent was asked",
    )
    attempt = Attempt(
        decision=decision,
        profile=AgentProfile(id=CACHE, kind="reference"),
        steps=(Step(answer=answer, verdict=verdict),),
        answered_at=run.parts.clock(),
        cached_from=hit.answer.task_id,
    )
    return run.conclude(attempt)


def _judged_anew(run: TaskRun, answer: Answer) -> Verdict | None:
    try:
        verdict, _ = run.judge(answer, agent_id=CACHE)
    except (CallTimeoutError, TaskCancelledError):
        return None  # the run that follows ends so, too, and logs it
    if verdict is None or not verdict.passed or verdict.quality < run.parts.settings.cache.min_quality:
        return None
    return verdict
