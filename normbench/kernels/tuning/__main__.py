"""Run the autotuner: `python -m normbench.kernels.tuning`."""

from .command import main

main()
