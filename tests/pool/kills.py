"""Processes that are killed in the middle, for tests of what the next one makes of it."""

from collections.abc import Callable


class KilledError(BaseException):
    """The process ends here."""


def killing(real: Callable[..., object], *, before: bool) -> Callable[..., object]:
    """In the place of a step: it is killed before the step, or when the step is done."""

    def killed(*arguments: object, **options: object) -> object:
        if not before:
            real(*arguments, **options)
        raise KilledError

    return killed
