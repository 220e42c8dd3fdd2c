"""The one private name of TRL that we replace."""

from trl.kernels import chunked_logprob
from trl.trainer import utils

from flywheel.training.processors import PRIVATE_NAME, score_labels_only


def test_the_private_name_still_exists_where_we_replace_it() -> None:
    """When this fails after an update of TRL, see whether processors still score every position; docs of the module."""
    assert hasattr(utils, PRIVATE_NAME)
    assert hasattr(chunked_logprob, PRIVATE_NAME)
    score_labels_only()
    assert getattr(utils, PRIVATE_NAME)("cpu") is True
