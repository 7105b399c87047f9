"""`python -m normbench.cli` is the command `normbench`."""

from . import main

main()
