"""Commands that take the words of a run have the options, defaults and help of `Choices`, and get them as one."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from normbench.cli.options import with_choices
from normbench.text.choices import HELP, Choices


@pytest.fixture
def command():
    app = typer.Typer(rich_markup_mode=None)
    taken = []

    @app.command()
    @with_choices("pass_", "batch", "checkpointing", "weight_dtype", "threads", of_tier="Throughput tier")
    def measure(choices: Choices, most: Annotated[int, typer.Option(help="The most.")] = 3) -> None:
        """Measure it."""
        taken.append((choices, most))

    def call(*words):
        done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        return done, taken

    return call


def test_words_that_are_typed_arrive_with_the_defaults_of_all_others(command):
    _, taken = command("--pass", "forward", "--weight-dtype", "float32", "--threads", "2", "--checkpointing", "--most", "5")
    assert taken == [(Choices(pass_="forward", weight_dtype="float32", threads=2, checkpointing=True), 5)]


def test_without_words_all_are_the_defaults(command):
    assert command()[1] == [(Choices(), 3)]


def test_word_that_was_not_asked_for_is_no_option(command):
    done, taken = command("--grid", "quick")
    assert done.exit_code == 2
    assert taken == []


def test_help_is_that_of_the_words_and_leaves_out_the_only_tier(command):
    done, _ = command("--help")
    text = " ".join(done.output.split())
    assert "Measure it." in text
    assert "--weight-dtype <str> " + HELP["weight_dtype"] in text
    assert "--batch <str> " + HELP["batch"].removeprefix("Throughput tier: ") in text
    assert "--no-checkpointing" not in text
