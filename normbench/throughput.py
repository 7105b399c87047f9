"""The command `torchrun --nproc-per-node N -m normbench.throughput`: one training by N processes, with the words of `normbench run`.

Rank 0 is `normbench run --tier throughput`; the other ranks do what it says. Without torchrun there is that one process.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from .distributed.gathering import Gathering, serve
from .distributed.place import Place
from .errors import NormbenchError
from .measure.worker import die_with

__all__ = ["main"]


def main() -> None:
    """Take this process's part and exit: 0, 1 for a failure, 2 for input that cannot work, told by rank 0 alone."""
    try:
        place = Place.find(os.environ, os.getppid())
    except NormbenchError as error:
        if os.environ["RANK"] == "0":
            print(f"normbench: {error}", file=sys.stderr)
        sys.exit(2)
    if place is None:
        _run([])
    elif place.rank:
        sys.exit(serve(place))
    else:
        die_with(os.getppid())
        signal.signal(signal.SIGTERM, _interrupt)
        with Gathering(place) as gathering:
            _run(["--nproc", str(place.size)], gathering)


def _run(options: list[str], gathering: Gathering | None = None) -> None:
    from .cli import main as command
    from .distributed import gathering as module

    module.current = gathering
    words = sys.argv[1:]
    sys.argv = ["normbench", "run", *_implied(words, options), *words]
    # Click would name a package that cannot be run: these are the words of `normbench run`.
    command("normbench")


def _implied(words: list[str], options: list[str]) -> list[str]:
    """Return what goes without saying before these words: the tier where none is named, and nothing where a run is gone on with.

    A run that is gone on with as it was asked for knows what that was.
    """
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    if "--resume" in named and named <= {"--resume", "--out", "--report", "--json"}:
        return []
    return options if "--tier" in named else ["--tier", "throughput", *options]


def _interrupt(*_: object) -> NoReturn:
    """Turn torchrun's request to end into Ctrl-C, once: after it records are kept, which a second one must not cut short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
