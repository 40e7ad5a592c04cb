"""The data sets that ``ea-fairseq prepare`` knows: one file each, whose ``DATA_SET`` has what is known of it."""
