"""Groups of commands."""

import click

WHOLE = 1_000
"""Characters that no summary has."""


class Group(click.Group):
    """A group whose help says of each command its whole first sentence, on several lines if need be."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        commands = ((name, self.commands[name]) for name in self.list_commands(ctx))
        rows = [(name, command.get_short_help_str(WHOLE)) for name, command in commands if not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
