"""The command line. Each command is imported only when it is run, so that probes start fast."""

from __future__ import annotations

from importlib import import_module

import click

from scaler import __version__

# Name: the module in this package that holds it as `command`, and its line in the list of commands.
COMMANDS = {
    "serve": ("scaler.cli.serve", "Answer KEDA."),
    "demo": ("scaler.cli.demo", "Run emulated engines, the scaler and a stand-in for KEDA."),
    "check": ("scaler.cli.check", "Look for faults in ScaledObject manifests."),
    "explain": ("scaler.cli.explain", "Say why a workload has the replicas that it has."),
    "diagnose": ("scaler.cli.diagnose", "Say what is wrong with a workload, and what to do."),
    "replay": ("scaler.cli.replay", "Decide on a workload's past anew, beside what happened."),
    "simulate": ("scaler.cli.simulate", "Try policies on simulated traffic: cost against SLO."),
    "load": ("scaler.cli.load", "Drive an OpenAI-compatible server with a trace, and judge it."),
    "health": ("scaler.cli.health", "Ask a scaler whether it answers KEDA (for probes)."),
}


class LazyGroup(click.Group):
    """A group whose commands are modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        found = import_module(COMMANDS[cmd_name][0]).command
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="scaler")
def main() -> None:
    """Give KEDA the number of vLLM replicas that demand needs, and say why."""
