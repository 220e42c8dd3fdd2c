"""What of a signed verdict is no text: ids and signatures that the arbiter made stay as they are, so that they verify.

They are told by their whole form. Whatever else stands in their place is looked into like any text.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from flywheel.records import Caws

FORMS = {
    "verdictId": re.compile(r"[0-9a-f]{32}"),
    "arbiterSignature": re.compile(r"ed25519:[0-9a-f]{32}:[0-9a-f]{128}"),
    "specDigest": re.compile(r"[0-9a-f]{64}"),
}
NAMES = dict(zip(Caws.__struct_encode_fields__, Caws.__struct_fields__, strict=True))


def signed_fields(caws: Mapping[str, Any]) -> frozenset[str]:
    """Which fields of a point's ``caws`` are ids or signatures of the arbiter's own."""
    return frozenset(
        name for name, form in FORMS.items() if isinstance(value := caws.get(name), str) and form.fullmatch(value)
    )


def without_signed(caws: Caws) -> Caws:
    """The verdict without them: what is looked into."""
    signed = signed_fields(dict(zip(NAMES, structs.astuple(caws), strict=True)))
    return structs.replace(caws, **{NAMES[key]: None for key in signed})
