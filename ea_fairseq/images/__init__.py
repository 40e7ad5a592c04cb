"""Images and their classes: archives, what checkpoints record of a data set, augmentations, and batches."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
