"""What the command line makes of errors: one sentence on stderr and an exit code, no traceback."""

from typing import Any

import click

from flywheel.cli.groups import Group
from flywheel.errors import FlywheelError


class Commands(Group):
    """A group whose commands may raise ``FlywheelError`` and be interrupted by signals."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors of ours become exit code 1, signals 128 and their number."""
        from flywheel.services.interrupts import Interrupted, interruptible

        try:
            with interruptible():
                return super().invoke(ctx)
        except FlywheelError as error:
            click.echo(f"flywheel: {error}", err=True)
            ctx.exit(1)
        except BrokenPipeError:
            raise  # who read the output has seen enough: click ends quietly
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            click.echo(f"flywheel: {error.strerror or error}{where}. Nothing is lost; mend it and run again", err=True)
            ctx.exit(1)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == "flywheel":
                raise
            click.echo(
                f"flywheel: {error.name} is not installed; pip install 'arbiter-flywheel[platform,training]'", err=True
            )
            ctx.exit(1)
        except Interrupted as interruption:
            ctx.exit(interruption.exit_code)
