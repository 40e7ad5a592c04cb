"""The data sets that ``ea-fairseq prepare`` knows: one file each, which defines ``DATA_SET``."""
