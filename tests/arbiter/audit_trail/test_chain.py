"""The law of the chain: whoever changes it is found, and where. In memory, by one who holds no key."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from flywheel.arbiter.audit_trail.chain import Finding, Read, Walk, first_finding, link_hash
from flywheel.arbiter.audit_trail.contents import Sealed, encode_content, read_content
from flywheel.arbiter.audit_trail.keys import PublicKey
from flywheel.arbiter.audit_trail.trail import announcement
from tests.arbiter.audit_trail.trails import KEY, OTHER, Chain, sealed

LONG = Chain().verdicts(6).rotate(OTHER).verdicts(5).erase(3, 9).verdicts(2)
HEAD = LONG.head()
BYTES = ("previous", "hash", "content_digest")


def found(reads: list[Read], chain: Chain = LONG) -> Finding | None:
    return first_finding(reads, Walk(heads=[chain.head()]))


def test_a_chain_that_nobody_touched_is_intact_over_rotations_and_erasures() -> None:
    walk = Walk(heads=[HEAD, HEAD])
    assert first_finding(LONG.reads, walk) is None
    assert (walk.sequence, walk.verdicts, walk.erased) == (len(LONG.reads), 11, 2)
    assert list(walk.keys) == [KEY.id, OTHER.id]


@settings(max_examples=150)
@given(data=st.data())
def test_an_edit_of_any_field_of_any_entry_is_found_there(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(LONG.reads) - 1))
    read = LONG.reads[place]
    fields = [name for name in read.entry.__struct_fields__ if getattr(read.entry, name) is not None]
    field = data.draw(st.sampled_from([*fields, *(["content"] if read.content else ["erased_in"])]))
    edited = edit(data, read, field)
    reads = [*LONG.reads[:place], edited, *LONG.reads[place + 1 :]]
    finding = found(reads)
    assert finding is not None
    if field not in {"sequence", "erased_in"}:
        assert finding.sequence == read.entry.sequence, finding


def edit(data: st.DataObject, read: Read, field: str) -> Read:
    """The entry with another value in one field, and where that is hashed with the hash made again, as an attacker
    without a key would."""
    if field == "content":
        assert read.content is not None
        place = data.draw(st.integers(0, len(read.content) - 1))
        flipped = bytes([read.content[place] ^ data.draw(st.integers(1, 255))])
        return replace(read, content=read.content[:place] + flipped + read.content[place + 1 :])
    if field == "erased_in":
        return replace(read, erased_in=data.draw(st.sampled_from([None, 1, 7, 13, 15, 99])))
    entry = read.entry
    value: Any = getattr(entry, field)
    if field in BYTES:
        value = bytes([value[0] ^ data.draw(st.integers(1, 255))]) + value[1:]
    elif field == "sequence":
        value += data.draw(st.sampled_from([-2, -1, 1, 5]))
    elif field == "at":
        value += msgspec.convert(data.draw(st.floats(0.000001, 1e6)), type=type(value - value), strict=False)
    else:
        value = data.draw(
            st.sampled_from([value[:-1], value.upper(), "verdict", "key", f"{value}0", ""]).filter(value.__ne__)
        )
    edited = replace(entry, **{field: value})
    if field not in {"hash", "signature"} and data.draw(st.booleans()):
        edited = replace(edited, hash=rehashed(edited))
    return replace(read, entry=edited)


def rehashed(entry: Any) -> bytes:
    hashed = ("sequence", "previous", "kind", "at", "content_digest", "verdict_signature")
    return link_hash(**{name: getattr(entry, name) for name in hashed}) if entry.sequence >= 0 else b""


@settings(max_examples=60)
@given(st.sets(st.integers(0, len(LONG.reads) - 1), min_size=1))
def test_a_removal_of_any_entries_is_found_at_the_first_of_them(removed: set[int]) -> None:
    reads = [read for place, read in enumerate(LONG.reads) if place not in removed]
    finding = found(reads)
    assert finding is not None
    assert (finding.sequence, finding.problem) == (min(removed) + 1, "missing")


@settings(max_examples=60)
@given(st.permutations(range(len(LONG.reads))).filter(lambda order: order != sorted(order)), st.booleans())
def test_a_reorder_is_found_at_the_first_entry_that_is_another(order: list[int], renumbered: bool) -> None:
    reads = [LONG.reads[place] for place in order]
    if renumbered:
        reads = [replace(r, entry=replace(r.entry, sequence=n)) for n, r in enumerate(reads, start=1)]
    first = next(place for place, moved in enumerate(order) if place != moved)
    finding = found(reads)
    assert finding is not None
    assert finding.sequence == first + 1


@pytest.mark.parametrize("left", range(len(LONG.reads)))
def test_a_truncation_is_found_by_the_head(left: int) -> None:
    finding = found(LONG.reads[:left])
    assert finding is not None
    assert (finding.sequence, finding.problem) == (left + 1, "missing")
    assert first_finding(LONG.reads[: len(LONG.reads) - 1], Walk()) is None, "without a head nobody can tell"


def test_a_chain_that_a_thief_wrote_anew_is_found() -> None:
    """Whoever can write everything and has no key begins anew with one of his own."""
    forged = Chain(type(KEY).of_seed(b"t" * 32)).verdicts(len(LONG.reads) - 1)
    assert first_finding(forged.reads, Walk()) is None
    by_head = found(forged.reads)
    assert by_head is not None
    assert "is signed by no key of this trail" in by_head.detail
    by_trust = first_finding(forged.reads, Walk(trusted=[KEY.id]))
    assert by_trust is not None
    assert (by_trust.sequence, by_trust.problem) == (1, "key")


def test_a_tail_that_a_thief_wrote_with_a_key_that_he_announced_himself_is_found() -> None:
    chain = Chain().verdicts(2)
    thief = type(KEY).of_seed(b"t" * 32)
    chain.key = thief
    chain.add(announcement(thief.public, by="the arbiter"))
    chain.verdicts(3)
    finding = first_finding(chain.reads, Walk())
    assert finding is not None
    assert (finding.sequence, finding.problem) == (4, "key")
    assert thief.id in finding.detail
    assert first_finding(chain.reads, Walk(trusted=[KEY.id, thief.id])) is None


@pytest.mark.parametrize(("key", "detail"), [(KEY, "is retired"), (type(KEY).of_seed(b"t" * 32), "is unknown")])
def test_an_entry_by_a_retired_or_unknown_key_is_found(key: Any, detail: str) -> None:
    chain = Chain().verdicts(2).rotate(OTHER).verdicts(1)
    chain.key = key
    chain.add(sealed(key=OTHER))
    finding = first_finding(chain.reads, Walk())
    assert finding is not None
    assert (finding.sequence, finding.problem) == (6, "key")
    assert detail in finding.detail


def test_a_forged_signature_is_found_and_told_from_an_unknown_key() -> None:
    last = LONG.reads[-1]
    body = last.entry.signature
    forged = body[:-1] + ("0" if body[-1] != "0" else "1")
    finding = found([*LONG.reads[:-1], replace(last, entry=replace(last.entry, signature=forged))])
    assert finding is not None
    assert (finding.sequence, finding.problem) == (last.entry.sequence, "signature")


def test_a_verdict_that_nobody_signed_is_found_though_the_entry_is_signed() -> None:
    one = sealed(key=type(KEY).of_seed(b"t" * 32))
    assert problem_of(one) == "verdict"
    other = sealed()
    assert problem_of(replace(other, signature=sealed().signature)) == "verdict"
    assert problem_of(other) is None


def problem_of(one: Sealed) -> str | None:
    chain = Chain()
    chain.add(one)
    finding = first_finding(chain.reads, Walk())
    return None if finding is None else finding.problem


def test_a_verdict_of_a_key_before_still_verifies_when_it_is_appended_late() -> None:
    late = sealed(key=KEY)
    chain = Chain().verdicts(1).rotate(OTHER)
    chain.add(late)
    assert first_finding(chain.reads, Walk()) is None


def test_columns_that_say_something_else_than_the_content_are_found() -> None:
    read = LONG.reads[1]
    assert read.index is not None
    for name in read.index.__struct_fields__:
        changed = replace(read, index=replace(read.index, **{name: None}))
        finding = found([LONG.reads[0], changed, *LONG.reads[2:]])
        assert finding is not None
        assert (finding.sequence, finding.problem) == (2, "columns")


@pytest.mark.parametrize("erasure", [None, 13])
def test_a_content_that_went_besides_those_of_an_erasure_is_found(erasure: int | None) -> None:
    gone = replace(LONG.reads[1], content=None, index=None, erased_in=erasure and len(LONG.reads) - 2)
    finding = found([LONG.reads[0], gone, *LONG.reads[2:]])
    assert finding is not None
    assert finding.problem == ("content" if erasure is None else "erasure")
    assert "the first" not in finding.detail


def test_what_was_put_back_after_an_erasure_is_found() -> None:
    chain = Chain().verdicts(3)
    kept = chain.reads[2]
    chain.erase(2, 3)
    chain.reads[2] = kept
    finding = first_finding(chain.reads, Walk())
    assert finding is not None
    assert (finding.sequence, finding.problem) == (5, "erasure")
    assert "ann erased 2 contents, and 1 are gone" in finding.detail


def test_a_head_that_was_edited_proves_nothing_and_says_so() -> None:
    finding = first_finding(LONG.reads, Walk(heads=[replace(HEAD, sequence=HEAD.sequence + 5)]))
    assert finding is not None
    assert "was edited" in finding.detail


@settings(max_examples=60)
@given(
    score=st.floats(0, 1) | st.sampled_from([0, 1]),
    name=st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
)
def test_the_same_content_is_the_same_bytes_however_often_it_is_read_and_written(score: float, name: str) -> None:
    content = read_content(sealed().content)
    made = encode_content(replace(content, overall_score=score, gates_passed=(name,)))
    assert encode_content(read_content(made)) == made


def test_a_key_shows_its_id_and_never_itself() -> None:
    seed = bytes(range(32))
    assert seed.hex() not in f"{KEY!r} {KEY} {KEY:}"
    assert PublicKey(KEY.public.hex).id == KEY.id
    import pickle

    with pytest.raises(TypeError, match="does not leave its process"):
        pickle.dumps(KEY)
