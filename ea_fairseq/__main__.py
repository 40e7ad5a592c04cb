"""``python -m ea_fairseq``: what is installed and who computes, for bug reports."""

from ea_fairseq.installation import main

main()
