"""A tenant's policy, applied to the strings of one of its points before personal data is looked for."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from flywheel.pool.anonymization.places import Place
from flywheel.pool.anonymization.policy import AnonymizationPolicy

SHORTEST = 3  # characters: shorter identifiers are found in words that have nothing to do with them
AGENT_KEYS = {"agentId", "selectedAgentId"}  # names of the registry: statistics are kept by them
SEPARATORS = re.compile(r"[-_ .]+")


def apply_policy(
    places: Iterable[Place], policy: AnonymizationPolicy, *, tenant_id: str, replaced: Counter[str]
) -> list[Place]:
    """Do in place what the policy says, and count it. Returns the places with the texts that they hold now."""
    listed = list(places)
    if policy.rewrites_code:
        from flywheel.pool.anonymization.code.points import rename_code

        replaced.update(rename_code(listed, structure_only=policy.keep_structure_only))
        listed = [place if place.is_key else replace(place, text=str(place.container[place.key])) for place in listed]
    if policy.strip_tenant_identifiers:
        return without_tenant(listed, tenant_pattern((tenant_id, *policy.tenant_names)), replaced=replaced)
    return listed


def without_tenant(places: list[Place], tenant: "TenantPattern", *, replaced: Counter[str]) -> list[Place]:
    """Take the tenant's identifiers out of the texts, in place; names of fields stay."""
    everything = "\n".join([place.text for place in places]).lower()
    if not any(needle in everything for needle in tenant.needles):
        return places
    clean: list[Place] = []
    for place in places:
        lowered = place.text.lower()
        stripped, count = place.text, 0
        if any(needle in lowered for needle in tenant.needles) and place.key not in AGENT_KEYS and not place.is_key:
            stripped, count = tenant.pattern.subn(tenant_placeholder, place.text)
        if count:
            replaced["TENANT"] += count
            place.container[place.key] = stripped
        clean.append(replace(place, text=stripped) if count else place)
    return clean


class TenantPattern(Struct, frozen=True):
    """What a tenant is called. A text without any of the ``needles`` (lower case) need not be searched."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]


@lru_cache(maxsize=1_000)
def tenant_pattern(names: tuple[str, ...]) -> TenantPattern:
    """The tenant's identifiers however they are written: ``acme-corp``, ``Acme Corp``, ``ACME_CORP``, ``acmeCorpKey``.

    A word begins and ends where case changes. Identifiers that are too short are not looked for.
    """
    spelled = []
    needles = []
    for name in sorted({name.strip() for name in names}, key=lambda name: (-len(name), name)):
        parts = [re.escape(part) for part in SEPARATORS.split(name) if part]
        if len("".join(parts)) >= SHORTEST:
            spelled.append("[-_ .]?".join(parts))
            needles.append(max(SEPARATORS.split(name), key=len).lower())
    begins = r"(?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
    ends = r"(?:(?![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
    return TenantPattern(tuple(needles), re.compile(f"{begins}(?i:{'|'.join(spelled)}){ends}"))


def tenant_placeholder(match: re.Match[str]) -> str:
    """``[TENANT]``; bare within an identifier or a dotted name, which so remains one."""
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 2]
    joined = before == "_" or before.isalnum() or after[:1] == "_" or after[:1].isalnum()
    dotted = after[:1] == "." and after[1:].isalpha()
    return "TENANT" if joined or dotted else "[TENANT]"
