"""Bugs of fairseq that this package fixes, one a file: each file names the bug and what is done instead."""

from ea_fairseq.fairseq_patches.errors import install_excepthook
from ea_fairseq.fairseq_patches.quiet import quiet_warnings


def apply(package_path: list[str]) -> None:
    """Patches the fairseq of this process, for all of its commands: once, when this package is imported.

    Args:
        package_path: the ``__path__`` of ``ea_fairseq``, which is extended.

    Raises:
        ImportError: where fairseq is missing or broken; what is imported below needs a working one.
    """
    install_excepthook()
    quiet_warnings()
    from ea_fairseq.fairseq_patches.version import require_working_fairseq

    require_working_fairseq()
    from ea_fairseq.fairseq_patches.adaptive_softmax import patch_adaptive_softmax
    from ea_fairseq.fairseq_patches.batches import patch_batches
    from ea_fairseq.fairseq_patches.checkpoints import patch_checkpoints
    from ea_fairseq.fairseq_patches.dictionaries import patch_dictionaries
    from ea_fairseq.fairseq_patches.distributed import patch_distributed
    from ea_fairseq.fairseq_patches.encodings import patch_encodings
    from ea_fairseq.fairseq_patches.flags import patch_flags
    from ea_fairseq.fairseq_patches.interactive import patch_interactive
    from ea_fairseq.fairseq_patches.meters import patch_meters
    from ea_fairseq.fairseq_patches.ngrams import patch_ngrams
    from ea_fairseq.fairseq_patches.numpy_names import patch_numpy
    from ea_fairseq.fairseq_patches.patience import patch_patience
    from ea_fairseq.fairseq_patches.user_dir import alias_user_dir
    from ea_fairseq.fairseq_patches.wall_clock import patch_wall_clock
    from ea_fairseq.search.generation_options import patch_options
    from ea_fairseq.search.native_search import patch_search

    alias_user_dir(package_path)
    patch_checkpoints()
    patch_distributed()
    patch_batches()
    patch_dictionaries()
    patch_encodings()
    patch_interactive()
    patch_flags()
    patch_numpy()
    patch_ngrams()
    patch_patience()
    patch_wall_clock()
    patch_meters()
    patch_adaptive_softmax()
    patch_search()
    patch_options()


import ea_fairseq.plugin  # noqa: E402, F401  before anything here uses fairseq
