"""``python -m ea_fairseq COMMAND``."""

from ea_fairseq.cli import main

main()
