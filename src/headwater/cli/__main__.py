"""`python -m headwater.cli` is `headwater`."""

from headwater.cli import main

main()
