"""Progress of a command that another program follows: one JSON object a line on stdout."""

import click


def report(done: int, total: int | None, message: str) -> None:
    """Print one ``flywheel.quickstart.progress.ProgressLine``."""
    import msgspec

    from flywheel.quickstart.progress import ProgressLine

    click.echo(msgspec.json.encode(ProgressLine(done=done, total=total, message=message)))
