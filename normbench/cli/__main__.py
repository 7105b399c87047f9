"""`python -m normbench.cli` is the command `normbench`."""

from . import main

# A process that a study starts imports this module again, under another name.
if __name__ == "__main__":
    main()
