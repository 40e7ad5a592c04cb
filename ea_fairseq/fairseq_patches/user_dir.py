"""``--user-dir ea_fairseq`` works although this package is imported already.

``fairseq.utils.import_user_module`` refuses a user-dir whose module is imported, unless its path is spelled as in the
module's ``__path__``. It looks for ``ea_fairseq`` in ``.../fairseq/../ea_fairseq``, and no import spells a path so.
That spelling is added to ``__path__``.
"""

from pathlib import Path


def alias_user_dir(package_path: list[str]) -> None:
    """Appends fairseq's spelling of a package's folder to its ``__path__``, where the two are the same folder."""
    import fairseq

    beside_fairseq = f"{Path(fairseq.__file__).parent}/../{Path(package_path[0]).name}"
    if Path(beside_fairseq).is_dir() and Path(beside_fairseq).samefile(package_path[0]):
        package_path.append(beside_fairseq)
