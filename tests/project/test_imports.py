"""Importing fairseq through this package leaves out what it seldom needs, until that is needed."""

import gc
import logging
import pickle
import subprocess
import sys
from pkgutil import iter_modules

import pytest
from fairseq.models import MODEL_REGISTRY

import ea_fairseq
from commands import PLUGIN, ROOT
from ea_fairseq import imports
from ea_fairseq.models import image, transformer

SCORES = """
import sys
import ea_fairseq
from fairseq.criterions.sentence_prediction import acc_and_f1, matthews_corrcoef, pearson_and_spearman

assert not {"sklearn", "scipy.stats"} & sys.modules.keys()
import numpy as np

labels, found = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
assert acc_and_f1(found, labels)["acc"] == 0.75
assert acc_and_f1(found, labels)["f1"] == 2 / 3
assert matthews_corrcoef(found, labels) > 0.5
assert pearson_and_spearman(found, labels)["pearson"] > 0.5
import sklearn.metrics
from sklearn.model_selection import ShuffleSplit

assert sklearn.metrics.f1_score(labels, found) == 2 / 3
"""


FOLDERS = sorted(path.parent.name for path in PLUGIN.glob("*/__init__.py"))


@pytest.fixture
def deferred(monkeypatch):
    """Has a module of Python's own, which nothing has imported, deferred where fairseq is not imported."""
    monkeypatch.setattr(imports, "LAZY_MODULES", ("colorsys",))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)


def test_a_function_is_imported_when_it_is_called(deferred):
    with imports.quick_import():
        import colorsys
        from colorsys import rgb_to_hsv

        assert not gc.isenabled()
    assert gc.isenabled()
    assert "colorsys" not in sys.modules
    assert rgb_to_hsv(1, 0, 0) == colorsys.rgb_to_hsv(1, 0, 0) == (0, 1, 1)
    assert sys.modules["colorsys"] is not colorsys


def test_an_import_that_fails_leaves_nothing_behind(deferred):
    with pytest.raises(ImportError), imports.quick_import():
        import no_such_module  # noqa: F401
    assert gc.isenabled()
    assert "colorsys" not in sys.modules


def test_what_is_imported_already_is_not_deferred(monkeypatch):
    import colorsys

    monkeypatch.setattr(imports, "LAZY_MODULES", ("colorsys",))
    with imports.quick_import():
        assert sys.modules["colorsys"] is colorsys


def test_what_an_import_logs_is_left_to_the_program():
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    with imports.quick_import():
        root.addHandler(logging.StreamHandler())  # as fairseq's modules do by basicConfig
        root.setLevel(level + 1)
    assert (root.level, root.handlers) == (level, handlers)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_whichever_module_is_imported_first_all_is_registered(folder):
    module = next(name for _, name, _ in iter_modules([str(PLUGIN / folder)]))
    registered = "import fairseq.models; fairseq.models.ARCH_MODEL_REGISTRY['ea_transformer_lite']"
    code = f"import ea_fairseq.{folder}.{module}; {registered}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_model_is_found_by_its_name_where_its_class_says():
    """So that models can be pickled."""
    models = [model for model in MODEL_REGISTRY.values() if model.__module__.startswith("ea_fairseq.")]
    assert len(models) > 100
    assert all(pickle.loads(pickle.dumps(model)) is model for model in models)
    assert transformer.EATransformerModel is ea_fairseq.EATransformerModel
    assert image.EAVitModel is MODEL_REGISTRY["ea_vit"]


@pytest.mark.slow
def test_fairseqs_scores_of_classifiers_work():
    subprocess.run([sys.executable, "-c", SCORES], cwd=ROOT, check=True)
