"""The command line: the only package that prints. Every command imports what it needs when it runs, so that --help is instant."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import NormbenchError, UsageError
from .check import check
from .claims import claims
from .compare import compare
from .gate import gate
from .inspect import inspect
from .listing import env, listing
from .merge import merge
from .models import models
from .profile import profile
from .run import report, run
from .show import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from .study import study
from .sweep import sweep
from .validate import validate

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Run commands; one that Ctrl-C ends says so, and what it leaves behind, where typer would exit without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            typer.echo("; ".join(["normbench: interrupted", *notes_of(interrupt)]), err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None


# Rich help would cost 0.1 s of imports; the commands themselves use rich where it shows something.
app = typer.Typer(
    name="normbench", cls=_Commands, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True
)


def _version(wanted: bool) -> None:
    if wanted:
        from ..version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    """Benchmark LayerNorm and RMSNorm: which normalisation, which kernel, how much faster, at which scope."""


app.command(epilog="Typed as `python -m normbench.throughput`, as torchrun does, the tier is throughput where none is named.")(run)
app.command()(report)
app.command()(merge)
app.command()(check)
app.add_typer(listing, name="list")
app.command()(env)
app.command()(inspect)
app.command()(study)
app.command()(sweep)
app.command()(claims)
app.command()(profile)
gates = typer.Typer(rich_markup_mode=None)
gates.callback(invoke_without_command=True)(gate)
gates.command()(validate)
app.add_typer(gates, name="gate")
app.command()(compare)
app.add_typer(models, name="models")


def notes_of(error: BaseException) -> list[str]:
    """Return what was added to an error on its way up: what is kept, and how to go on with it."""
    return list(getattr(error, "__notes__", ()))


def main(program: str | None = None) -> None:
    """Run the command line; our own errors become one line on stderr and an exit code, 2 for input that cannot work.

    `program` is the name that help shows, where it is not the one that was started.
    """
    _guarded(lambda: app(prog_name=program))


def _guarded(command: Callable[[], Any]) -> None:
    try:
        command()
    except UsageError as error:
        typer.echo(f"normbench: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except NormbenchError as error:
        typer.echo("\n".join([f"normbench: {error}", *notes_of(error)]), err=True)
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        sys.exit(EXIT_FAILED)
