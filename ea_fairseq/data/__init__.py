"""From archives and raw text to binarised data, whose steps go on where they stopped."""
