"""Options that commands share: those that say what is measured, and those of the gate and of its validation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from ..text.choices import DEFAULTS, HELP, Choices, option_name

__all__ = ["Device", "Dtype", "ErrorRate", "Margin", "Norm", "Pass", "Seed", "Threads", "with_choices"]

Norm = Annotated[str, typer.Option(help=HELP["norm"])]
Pass = Annotated[str, typer.Option("--pass", help=HELP["pass_"])]
Dtype = Annotated[str, typer.Option(help=HELP["dtype"])]
Device = Annotated[str, typer.Option(help=HELP["device"])]
Threads = Annotated[int, typer.Option(help=HELP["threads"])]
Seed = Annotated[int, typer.Option(help=HELP["seed"])]
Margin = Annotated[str, typer.Option(help="A case is slower only beyond this share.")]
ErrorRate = Annotated[str, typer.Option(help="Probability that a run of unchanged code is red, all cases together.")]


def with_choices(*names: str, of_tier: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these fields of `Choices`, before its own; it is called with all as `choices`.

    The other fields keep their defaults. A command that serves one tier alone leaves its name out of the help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        kinds = get_type_hints(Choices)

        @functools.wraps(command)
        def called(**words: Any) -> None:
            command(choices=Choices(**{name: words.pop(name) for name in names}), **words)

        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=getattr(DEFAULTS, name),
                annotation=Annotated[kinds[name], typer.Option(f"--{option_name(name)}", help=HELP[name].removeprefix(f"{of_tier}: "))],
            )
            for name in names
        ]
        rest = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in own.parameters.items() if name != "choices"]
        # What typer reads to make the options.
        called.__signature__ = own.replace(parameters=[*options, *rest])  # type: ignore[attr-defined]
        return called

    return decorate
