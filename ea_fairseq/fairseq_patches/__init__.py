"""Fixes for bugs of fairseq: each file describes its bugs and what happens instead."""

from ea_fairseq.fairseq_patches.errors import install_excepthook
from ea_fairseq.fairseq_patches.startup import alias_user_dir, quiet_warnings, require_working_fairseq


def apply(package_path: list[str]) -> None:
    """Patches the fairseq of this process, for all of its commands: once, when this package is imported.

    Args:
        package_path: the ``__path__`` of ``ea_fairseq``, which is extended.

    Raises:
        ImportError: if fairseq is missing or broken; the imports below need a working one.
    """
    install_excepthook()
    quiet_warnings()
    require_working_fairseq()
    from ea_fairseq.fairseq_patches.checkpoints import patch_checkpoints
    from ea_fairseq.fairseq_patches.distributed import patch_distributed
    from ea_fairseq.fairseq_patches.flags import patch_flags
    from ea_fairseq.fairseq_patches.interactive import patch_interactive
    from ea_fairseq.fairseq_patches.resumption import patch_resumption
    from ea_fairseq.fairseq_patches.saving import patch_saving
    from ea_fairseq.fairseq_patches.small_bugs import patch_small_bugs
    from ea_fairseq.fairseq_patches.text_files import patch_text_files
    from ea_fairseq.search.generation_options import patch_options
    from ea_fairseq.search.native_search import patch_search

    alias_user_dir(package_path)
    patch_checkpoints()
    patch_saving()
    patch_distributed()
    patch_interactive()
    patch_flags()
    patch_resumption()
    patch_text_files()
    patch_small_bugs()
    patch_search()
    patch_options()


import ea_fairseq.plugin  # noqa: E402, F401  before anything here uses fairseq
