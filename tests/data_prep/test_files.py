"""Files are replaced whole or not at all."""

import errno

import pytest

from ea_fairseq.plain.files import replacing


def test_a_file_is_replaced_when_all_is_written(tmp_path):
    path = tmp_path / "a file.txt"
    path.write_text("old")
    with replacing(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()], ids=repr)
def test_where_writing_fails_the_old_file_stays_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "a file.txt"
    path.write_text("old")
    with pytest.raises(type(error)) as failed, replacing(path) as unfinished:
        unfinished.write_text("ne")
        raise error
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]
    assert getattr(failed.value, "filename", str(path)) == str(path)
