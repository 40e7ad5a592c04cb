"""``python -m ea_fairseq``: a report on the installation, for bug reports."""

from ea_fairseq.installation import main

main()
