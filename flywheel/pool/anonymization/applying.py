"""A tenant's policy, applied to the strings of one of its points before personal data is looked for."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

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
    pattern = tenant_pattern((tenant_id, *policy.tenant_names)) if policy.strip_tenant_identifiers else None
    if pattern is None:
        return listed
    clean: list[Place] = []
    for place in listed:
        stripped, count = pattern.subn(tenant_placeholder, place.text)
        if not count or place.is_key or place.key in AGENT_KEYS:
            clean.append(place)
            continue
        replaced["TENANT"] += count
        place.container[place.key] = stripped
        clean.append(replace(place, text=stripped))
    return clean


@lru_cache(maxsize=1_000)
def tenant_pattern(names: tuple[str, ...]) -> re.Pattern[str] | None:
    """The tenant's identifiers however they are written: ``acme-corp``, ``Acme Corp``, ``ACME_CORP``, ``acmeCorpKey``.

    A word begins and ends where case changes. None where every identifier is too short to be looked for.
    """
    spelled = []
    for name in sorted({name.strip() for name in names}, key=lambda name: (-len(name), name)):
        parts = [re.escape(part) for part in SEPARATORS.split(name) if part]
        if len("".join(parts)) >= SHORTEST:
            spelled.append("[-_ .]?".join(parts))
    if not spelled:
        return None
    begins = r"(?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
    ends = r"(?:(?![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
    return re.compile(f"{begins}(?i:{'|'.join(spelled)}){ends}")


def tenant_placeholder(match: re.Match[str]) -> str:
    """``[TENANT]``; bare within an identifier or a dotted name, which so remains one."""
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 2]
    joined = before == "_" or before.isalnum() or after[:1] == "_" or after[:1].isalnum()
    dotted = after[:1] == "." and after[1:].isalpha()
    return "TENANT" if joined or dotted else "[TENANT]"
