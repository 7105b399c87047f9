"""Run the autotuner: `python -m normbench.tuning`."""

from .command import main

main()
