"""torchrun as a child of this package: it ends with its parent, and what a rank has said of its failure is not said again."""

from __future__ import annotations

import logging
import sys

from ..measure.worker import die_with

__all__ = ["main"]

_EXIT_FAILED, _EXIT_USAGE, _EXIT_INTERRUPTED = 1, 2, 130


def main() -> int:
    """Run torchrun with the words after the parent's number and return the exit code: that of the first rank that failed."""
    parent, *words = sys.argv[1:]
    die_with(int(parent))
    from torch.distributed import DistNetworkError, run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # It writes a page about every rank that exits with another code than 0.
    logging.disable(logging.CRITICAL)
    try:
        run.main(words)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if rank == 0 and failure.exitcode < 0:
            # It keeps the records and tells what happens; nobody else is left to tell this.
            print(
                f"normbench: rank 0 was killed by signal {-failure.exitcode}; what it had finished is kept: go on with "
                "`normbench run --resume latest`",
                file=sys.stderr,
            )
        return failure.exitcode if failure.exitcode > 0 else _EXIT_FAILED
    except SignalException:
        return _EXIT_INTERRUPTED
    except DistNetworkError as error:
        print(f"normbench: the processes cannot meet: {str(error).splitlines()[0]}; choose another port with --port", file=sys.stderr)
        return _EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
