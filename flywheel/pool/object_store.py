"""Object stores under the lake: what delta-rs is told besides the environment, and its errors in a sentence.

Credentials, region and endpoint come from the environment, as ``deltalake`` documents (``AWS_ACCESS_KEY_ID``,
``GOOGLE_SERVICE_ACCOUNT``, ``AZURE_STORAGE_ACCOUNT_NAME`` …).
"""

import re

PATIENCE = {"connect_timeout": "3s", "timeout": "20s", "max_retries": "4", "retry_timeout": "15s"}
"""A store that does not answer is an error after some 20 seconds. delta-rs alone would try for three minutes."""
ONE_COMMIT_WINS = {"aws_conditional_put": "etag", "aws_s3_allow_unsafe_rename": "false"}
"""A version is committed by a put that fails where the version is there: of two writers at once one commits it."""
S3 = ("s3://", "s3a://")

COLORS = re.compile(r"\x1b\[[0-9;]*m")
CODE = re.compile(r"<Code>([^<]*)</Code>")
MESSAGE = re.compile(r"<Message>([^<]*)</Message>")


def storage_options(url: str) -> dict[str, str] | None:
    """What delta-rs is told of the store that holds the lake; None for a folder."""
    if "://" not in url or url.startswith("file://"):
        return None
    return PATIENCE | (ONE_COMMIT_WINS if url.startswith(S3) else {})


def reason_of(error: Exception) -> str:
    """What an error of delta-rs says, in one line: its first words, and of a store's chain of causes the last."""
    lines = [COLORS.sub("", line).strip(" \t↳") for line in str(error).splitlines()]
    first, *causes = [line for line in lines if line] or [type(error).__name__]
    if "Generic" not in first and "Kernel error" not in first:
        return first
    text = " ".join(causes)
    code, message = CODE.search(text), MESSAGE.search(text)
    if code:
        return f"{first.removeprefix('Kernel error -> ')}: {code[1]}{f', {message[1]}' if message else ''}"
    return f"{first.removeprefix('Kernel error -> ')}{f': {causes[-1]}' if causes else ''}"
