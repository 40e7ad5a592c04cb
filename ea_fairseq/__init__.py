"""Evolving attention for neural machine translation: a fairseq user-dir (``--user-dir ea_fairseq``)."""

import sys

from ea_fairseq import installation
from ea_fairseq.fairseq_patches.version import know_all_paths, require_working_fairseq
from ea_fairseq.user_error import UserError, show_sentences

show_sentences()
try:
    require_working_fairseq()
except Exception as error:
    if installation.is_asked_for():
        installation.main(str(error))
        sys.exit()
    raise
know_all_paths(__path__)

from ea_fairseq.criterions import label_smoothed_cross_entropy as criterion  # noqa: E402, F401
from ea_fairseq.fairseq_patches.batches import resume_batches  # noqa: E402
from ea_fairseq.fairseq_patches.checkpoints import make_checkpoints_safe  # noqa: E402
from ea_fairseq.fairseq_patches.distributed import let_processes_work  # noqa: E402
from ea_fairseq.fairseq_patches.patience import resume_patience  # noqa: E402
from ea_fairseq.models import transformer as ea_transformer  # noqa: E402, F401
from ea_fairseq.models import transformer_lite  # noqa: E402, F401
from ea_fairseq.models.transformer import EATransformerModel  # noqa: E402

make_checkpoints_safe()
let_processes_work()
resume_batches()
resume_patience()

__all__ = ["EATransformerModel", "UserError"]
