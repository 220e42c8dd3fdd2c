"""Noise on the rewards of an export: label differential privacy, one task's point at a time.

What a point says of its task's quality is its label; all else, texts included, is taken for known. One number of the
label is drawn with noise, the reward; where the phase learns from turns, one for each turn as well. The copy is built
from a list of what may stay, so a field that is added to points later stays out of it until somebody puts it there:

- the total reward, the overall score and the rubric's terms all carry the one noised reward: they are functions of one
  another, and each with noise of its own would tell more or need more noise;
- left out is what else is computed from the evaluation (gates' scores, the diff's multiplier, token efficiency, quality
  of iterations, warnings), from feedback, or from rewards of earlier tasks (candidates, history, reasons of routing);
- the id is drawn anew: a point's own is a digest of its logs, scores included, against which scores can be tried.

Verdicts (success, outcome, compliance) stay true: they are what points were chosen by.
"""

import secrets
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice
from math import sqrt
from statistics import fmean
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import asdict, replace
from psycopg import Connection

from flywheel.pool.anonymization.noise import Noise, add_noise, gaussian_noise, laplace_noise
from flywheel.pool.anonymization.tenants import salts_of
from flywheel.pool.batches import Batch
from flywheel.pool.export_choice import ExportCriteria
from flywheel.pool.privacy_budget import uncovered
from flywheel.pool.rows import Row
from flywheel.pool.selection import Offer
from flywheel.records import (
    DataPoint,
    EvaluationPart,
    ExecutionPart,
    Provenance,
    RlLabels,
    Routing,
    RubricScores,
    Turn,
    decode_point,
    encode,
)
from flywheel.settings import Phase, Settings

TURNS: Phase = "turn-level-rl"
"""The one phase whose points keep the rewards of their turns."""
UNIT = "the reward of one task's point"
KEPT_OF_EXECUTION = (
    "success",
    "latency_ms",
    "tokens_used",
    "tool_call_count",
    "failure_reason",
    "partial_success",
    "thinking_tokens",
    "output_tokens",
    "tool_call_success_rate",
    "tools_used",
    "time_to_first_action",
    "messages",
)


class ExportedId(Struct, frozen=True):
    """The id of a point as its payload has it."""

    id: str


decode_id = Decoder(ExportedId).decode


def policy_scale(settings: Settings, tenants: Collection[str]) -> float | None:
    """The scale b of Laplace noise that the policies of these tenants ask for; None where rewards stay true.

    The one place that reads the policies: noise is for rewards that cross from one tenant to another, and the tenant
    that wants most of it decides for all. Tenants are given by a hash of theirs.
    """
    if len(tenants) < 2:
        return None
    policies = settings.anonymization.policies
    salts = salts_of(settings) if policies.tenants else None
    own = {one: policies.of(name) for name in policies.tenants for one in salts.hashes(name)} if salts else {}
    asking = [policy for tenant in tenants if (policy := own.get(tenant, policies.default)).add_noise_to_rewards]
    return max((policy.noise_magnitude for policy in asking), default=None)


def noise_for(
    settings: Settings, criteria: ExportCriteria, offers: Sequence[Offer], rows: Sequence[Row]
) -> Noise | None:
    """The noise that an export of these points gets; None where its rewards stay as they are.

    What the criteria ask for goes before the policy, whose b makes ε = sensitivity / b.

    Raises:
        PoolError: no noise can be made as the criteria ask for it.
    """
    scale = policy_scale(settings, tenants_of(offers))
    if not rows or (criteria.noise_epsilon is None and scale is None):
        return None
    values = values_of_a_point(criteria.phase, rows)
    if criteria.noise_epsilon is None:
        assert scale is not None
        return laplace_noise(epsilon=values / scale, sensitivity=values)
    if criteria.noise_delta is None:
        return laplace_noise(epsilon=criteria.noise_epsilon, sensitivity=values)
    return gaussian_noise(epsilon=criteria.noise_epsilon, delta=criteria.noise_delta, sensitivity=sqrt(values))


def tenants_of(offers: Sequence[Offer]) -> set[str]:
    """Whose points these are, as keyed hashes."""
    return {offer.tenant_id for offer in offers}


def values_of_a_point(phase: Phase, rows: Sequence[Row]) -> int:
    """The greatest number of values that are drawn for one of these points, each within 0–1: the sensitivity."""
    if phase != TURNS:
        return 1
    return 1 + max(len(decode_point(row["payload"]).rl_labels.turns) for row in rows)


def objections(
    connection: Connection[Any],
    settings: Settings,
    noise: Noise,
    offers: Sequence[Offer],
    *,
    now: datetime,
) -> Iterator[str]:
    """Why an export with this noise is not made, a sentence each."""
    tenants = tenants_of(offers)
    scale = policy_scale(settings, tenants)
    if scale is not None:
        values = noise.sensitivity if noise.mechanism == "laplace" else round(noise.sensitivity**2)
        most = laplace_noise(epsilon=values / scale, sensitivity=values).epsilon
        if noise.epsilon > most:
            yield (
                f"less noise: the policy of its {len(tenants):,} tenants (noise_magnitude {scale:g}) allows at most "
                f"ε {most:g} an export, not {noise.epsilon:g}"
            )
    yield from uncovered(connection, settings.privacy, noise, tenants=tenants, now=now)


def announced(batch: Batch, noise: Noise) -> Batch:
    """The batch before anything is drawn: with what the noise is, without what true rewards would show through."""
    described: dict[str, Any] = {**asdict(noise), "unit": UNIT}
    described["range"] = [described.pop("lower"), described.pop("upper")]
    return replace(batch, quality={}, criteria={**batch.criteria, "noise": described})


def noised(batch: Batch, rows: Sequence[Row], noise: Noise) -> tuple[Batch, list[Row]]:
    """Draw the noise: the batch with the quality of its noised copy, and the copy.

    Raises:
        PoolError: nothing was drawn, because the noise is less than it claims.
    """
    points = [decode_point(row["payload"]) for row in rows]
    labels = [labels_of(point, phase=row["phase"]) for point, row in zip(points, rows, strict=True)]
    drawn = iter(add_noise([value for some in labels for value in some], noise))
    copies = [noised_point(point, list(islice(drawn, len(some)))) for point, some in zip(points, labels, strict=True)]
    noised_rows = [{**row, "payload": encode(copy)} for row, copy in zip(rows, copies, strict=True)]
    rewards = [copy.rl_labels.total_reward for copy in copies]
    quality = {"mean": fmean(rewards), "min": min(rewards), "max": max(rewards)}
    return replace(batch, quality=dict.fromkeys(batch.points, quality)), noised_rows


def labels_of(point: DataPoint, *, phase: Phase) -> list[float]:
    """The values of a point that noise is drawn for: its reward, and its turns' where the phase learns from them."""
    turns = point.rl_labels.turns if phase == TURNS else ()
    return [point.rl_labels.total_reward, *(turn.turn_reward for turn in turns)]


def noised_point(point: DataPoint, drawn: Sequence[float]) -> DataPoint:
    """A point with these rewards in the place of its own: the total, then those of turns that stay."""
    reward, *turn_rewards = drawn
    evaluation = point.evaluation
    return DataPoint(
        id=secrets.token_hex(16),
        timestamp=point.timestamp,
        tenant_id=point.tenant_id,
        task=point.task,
        routing=Routing(
            selected_agent_id=point.routing.selected_agent_id,
            strategy=point.routing.strategy,
            confidence=0.0,
            candidate_agents=(),
            primary_reason="",
        ),
        execution=ExecutionPart(**{name: getattr(point.execution, name) for name in KEPT_OF_EXECUTION}),
        evaluation=EvaluationPart(
            quality_gates=(),
            rubric_scores=RubricScores(**dict.fromkeys(RubricScores.__struct_fields__, reward)),
            overall_score=reward,
            caws_compliant=evaluation.caws_compliant,
            budget_compliant=evaluation.budget_compliant,
            passed_all_mandatory=evaluation.passed_all_mandatory,
        ),
        rl_labels=RlLabels(
            final_outcome=point.rl_labels.final_outcome,
            total_reward=reward,
            turns=tuple(map(noised_turn, point.rl_labels.turns, turn_rewards)),
        ),
        provenance=Provenance(
            ai_assisted=point.provenance.ai_assisted,
            human_reviewed=point.provenance.human_reviewed,
            commit_hash=point.provenance.commit_hash,
            caws_version=point.provenance.caws_version,
        ),
        rl_ready=point.rl_ready,
    )


def noised_turn(turn: Turn, reward: float) -> Turn:
    """A turn whose reward, and each of its four terms, is this one."""
    return Turn(
        turn_number=turn.turn_number,
        tool_called=turn.tool_called,
        information_gain=reward,
        format_correctness=reward,
        task_progress=reward,
        safety_score=reward,
        turn_reward=reward,
    )


def exported_ids(rows: Sequence[Row]) -> list[Row]:
    """Rows of a noised copy with the ids that its points have outside of the pool."""
    return [{**row, "id": decode_id(row["payload"]).id} for row in rows]
