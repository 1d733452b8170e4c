"""Where input files are found: as given, then beside the packages."""

import os

import pytest

from estimator_trainer.errors import UserError
from estimator_trainer.gin_config import INSTALL_ROOT as ROOT
from input_fns.files import find

BINDING = 'train/csv_input_fn.files'
PENGUINS = 'input_fns/data/penguins'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test runs in a folder of its own, with three files, a folder and a pipe in it."""
    monkeypatch.chdir(tmp_path)
    for name in ('b.csv', 'a.csv', 'notes.txt'):
        (tmp_path / name).write_text('x\n1\n')
    (tmp_path / 'folder').mkdir()
    os.mkfifo(tmp_path / 'pipe')


@pytest.mark.parametrize(
    ('files', 'want_files'),
    [
        ('a.csv', ['a.csv']),
        ('*.csv', ['a.csv', 'b.csv']),
        (['b.csv', 'a.csv'], ['b.csv', 'a.csv']),
        (('*.csv', 'a.csv', 'notes.txt'), ['a.csv', 'b.csv', 'notes.txt']),
        (f'{PENGUINS}/train.csv', [f'{ROOT}/{PENGUINS}/train.csv']),
        (f'{PENGUINS}/*.csv', [f'{ROOT}/{PENGUINS}/eval.csv', f'{ROOT}/{PENGUINS}/train.csv']),
        (f'{ROOT}/{PENGUINS}/eval.csv', [f'{ROOT}/{PENGUINS}/eval.csv']),
    ],
)
def test_find(files, want_files):
    assert find(files, BINDING) == want_files


def test_as_given_comes_before_beside_the_packages(tmp_path):
    own = tmp_path / PENGUINS / 'train.csv'
    own.parent.mkdir(parents=True)
    own.write_text('x\n1\n')
    assert find(f'{PENGUINS}/train.csv', BINDING) == [f'{PENGUINS}/train.csv']


def test_a_name_that_looks_like_a_pattern_is_a_name_where_it_exists(tmp_path):
    (tmp_path / 'a[1].csv').write_text('x\n1\n')
    assert find('a[1].csv', BINDING) == ['a[1].csv']


@pytest.mark.parametrize(
    ('files', 'want_texts'),
    [
        ([], ['names no file']),
        ('aa.csv', ["no file 'aa.csv' or", os.path.join(ROOT, 'aa.csv'), "did you mean 'a.csv'"]),
        (['a.csv', 'none*.csv'], ["no file 'none*.csv' or"]),
        (['aa.csv', 'a.csv', 'no.csv', 'none*.csv'], ["no file 'aa.csv' or", '(nor 2 more: no.csv, none*.csv)']),
        (f'{PENGUINS}/trian.csv', [f"did you mean '{PENGUINS}/train.csv'"]),
        (PENGUINS, [f"'{ROOT}/{PENGUINS}' is a directory; expected a file"]),
        ('folder', ["'folder' is a directory; expected a file"]),
        ('pipe', ["'pipe' is a pipe; expected a file"]),
        ('p*', ["'pipe' is a pipe; expected a file"]),
        (['a.csv', '/dev/null'], ["'/dev/null' is a device; expected a file"]),
        ('/nowhere/a.csv', ["no file '/nowhere/a.csv'"]),
    ],
)
def test_error(files, want_texts):
    with pytest.raises(UserError) as error:
        find(files, BINDING)
    assert str(error.value).startswith(f'{BINDING}: ')
    assert '\n' not in str(error.value)
    for want in want_texts:
        assert want in str(error.value)
