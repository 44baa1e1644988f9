"""`python -m geglu_tune`: the command line, where the script is not on the path."""

from geglu_tune.cli import main

main()
