"""Choices as the command line reads them."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from typer.testing import CliRunner

from normbench.cli.options import with_choices
from normbench.text.choices import Choices, fields


def typed(words: Sequence[str]) -> Choices:
    """Return the choices of a user who types these options of `normbench run`."""
    read = []

    @with_choices(*(name for name, _ in fields()))
    def command(choices: Choices) -> None:
        read.append(choices)

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    (found,) = read
    return found
