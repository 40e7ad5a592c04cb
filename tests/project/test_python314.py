"""The function of fairseq that is replaced on Python 3.14 gives what fairseq's own gives on other versions."""

import sys
from dataclasses import fields
from enum import Enum
from typing import Any, Optional, Union

import pytest
from fairseq.dataclass import configs
from fairseq.dataclass import utils as fairseq_utils
from fairseq.registry import REGISTRIES

from commands import run_python
from ea_fairseq.python314 import interpret_dc_type


@pytest.mark.parametrize(
    ("field_type", "parsed"),
    [
        (int, int),
        (Any, str),
        (Optional[int], int),  # noqa: UP045
        (int | None, int),
        (Union[int, str], Union[int, str]),  # noqa: UP007
        (list[str] | None, list[str]),
        (Enum, Enum),
    ],
)
def test_an_optional_setting_is_parsed_as_its_type(field_type, parsed):
    assert interpret_dc_type(field_type) == parsed


def test_a_type_must_not_be_a_string():
    with pytest.raises(RuntimeError, match="should be a type"):
        interpret_dc_type("int")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="fairseq's own function fails on Python 3.14")
def test_all_settings_of_fairseq_are_parsed_as_by_its_own_function():
    classes = {
        *(
            found
            for found in vars(configs).values()
            if isinstance(found, type) and hasattr(found, "__dataclass_fields__")
        ),
        *(found for registry in REGISTRIES.values() for found in registry["dataclass_registry"].values() if found),
    }
    types = [found._get_type(field.name) for found in (kind() for kind in classes) for field in fields(found)]
    assert len(types) > 300
    assert [*map(interpret_dc_type, types)] == [*map(fairseq_utils.interpret_dc_type, types)]


def test_the_import_hook_replaces_the_function_before_fairseq_calls_it(tmp_path):
    shown = run_python(
        "from ea_fairseq import python314; python314.install(); python314.install()\n"
        "import fairseq.dataclass.utils as utils; print(utils.interpret_dc_type.__module__)",
        cwd=tmp_path,
    )
    assert shown.stdout.splitlines()[-1] in ("ea_fairseq.python314", "ea_fairseq_python314"), shown.stderr


@pytest.mark.skipif(sys.version_info < (3, 14), reason="argparse checks help texts from Python 3.14 on")
def test_hydras_parser_is_made_although_a_help_text_of_it_is_no_string(tmp_path):
    shown = run_python(
        "from ea_fairseq import python314; python314.install()\n"
        "from hydra._internal.utils import get_args_parser; print(get_args_parser().prog)",
        cwd=tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
