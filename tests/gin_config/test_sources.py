"""Where gin files are found, and what they say before gin knows them."""

import subprocess
import sys

import pytest

from estimator_trainer import gin_config
from estimator_trainer.gin_config import sources
from tests import program
from tests.gin_config.helpers import error_of, read, write


@pytest.mark.parametrize(
    ('present', 'want_max_steps'),
    [
        (['penguins.gin', 'first/penguins.gin', 'second/penguins.gin'], 'penguins.gin'),
        (['first/penguins.gin', 'second/penguins.gin'], 'first/penguins.gin'),
        (['second/penguins.gin'], 'second/penguins.gin'),
    ],
)
def test_a_file_is_looked_for_as_given_then_in_the_search_paths(directory, present, want_max_steps):
    for name in present:
        write(directory / name, f'experiment.max_steps = {name!r}')
    config = read(gin_files=['penguins.gin'], search_paths=['first', 'second'])
    assert config.literal('experiment.max_steps') == want_max_steps


@pytest.mark.parametrize('name', ['penguins.gin', 'configs/penguins.gin'])
def test_the_shipped_configs_are_found_last(name):
    (source,) = read(gin_files=[name], search_paths=['first']).sources
    assert source.path == str(gin_config.CONFIGS / 'penguins.gin')
    assert source.statements[0].where.startswith('configs/penguins.gin:')


def test_an_included_file_is_found_as_others_are_and_read_where_it_is_included(directory):
    write(directory / 'paths/base.gin', 'experiment.max_steps = 1\nexperiment.eval_steps = 1')
    write(directory / 'my.gin', "experiment.eval_steps = 0\ninclude 'base.gin'\nexperiment.max_steps = 2")
    config = read("include 'base.gin'", gin_files=['my.gin'], search_paths=['paths'])
    assert [source.name for source in config.sources] == ['my.gin', '--gin_param #1']
    assert config.literal('experiment.max_steps') == 1
    config = read(gin_files=['my.gin'], search_paths=['paths'])
    assert (config.literal('experiment.max_steps'), config.literal('experiment.eval_steps')) == (2, 1)
    assert [statement.where for statement in config.statements] == [
        'my.gin:1',
        'paths/base.gin:1',
        'paths/base.gin:2',
        'my.gin:3',
    ]


@pytest.mark.parametrize(('includer', 'want_value'), [('configs', 'ours'), ('mine', 'theirs')])
def test_a_shipped_config_includes_shipped_ones_whatever_the_directory_holds(
    directory, monkeypatch, includer, want_value
):
    monkeypatch.setattr(sources, 'INSTALL_ROOT', directory / 'installed')
    monkeypatch.setattr(sources, 'CONFIGS', directory / 'installed/configs')
    write(directory / 'installed/configs/base.gin', "f.x = 'ours'")
    write(directory / 'base.gin', "f.x = 'theirs'")
    write(directory / 'installed' / includer / 'top.gin', "include 'base.gin'")
    config = read(gin_files=[f'{directory}/installed/{includer}/top.gin'])
    assert config.literal('f.x') == want_value


@pytest.mark.parametrize(
    ('name', 'want_texts'),
    [
        ('nope.gin', ['--gin_file=nope.gin: no such file', 'the current directory, paths, ']),
        ('mine.gni', ['--gin_file=mine.gni', "did you mean 'mine.gin'"]),
        ('digts.gin', ["did you mean 'digits.gin'"]),
        ('config/digits.gin', ["did you mean 'configs/digits.gin'"]),
        ('mine.gin,other.gin', ['repeat --gin_file for several files']),
        ('paths', ['is a directory']),
        ('latin.gin', ['--gin_file=latin.gin: cannot read latin.gin', 'utf-8']),
        ('self.gin', ["self.gin:1: include 'self.gin': self.gin includes itself"]),
        ('a.gin', ["b.gin:2: include 'a.gin': a.gin includes itself"]),
        ('lost.gin', ["lost.gin:1: include 'nowhere.gin': no such file"]),
        ('https://host/my.gin', ['--gin_file=https://host/my.gin: cannot read https://host/my.gin', 'fetch it first']),
        ('web.gin', ["web.gin:1: include 'HTTP://host/a.gin'", 'fetch it first']),
    ],
)
def test_files_that_cannot_be_read(directory, name, want_texts):
    write(directory / 'mine.gin', '')
    write(directory / 'self.gin', "include 'self.gin'")
    write(directory / 'a.gin', "include 'b.gin'")
    write(directory / 'b.gin', "\ninclude 'a.gin'")
    write(directory / 'lost.gin', "include 'nowhere.gin'")
    write(directory / 'web.gin', "include 'HTTP://host/a.gin'")
    (directory / 'paths').mkdir()
    (directory / 'latin.gin').write_bytes('a.b = "é"'.encode('latin-1'))
    message = error_of(read, gin_files=[name], search_paths=['paths'])
    for want_text in want_texts:
        assert want_text in message


def test_a_search_path_on_the_web_is_refused_once_it_is_needed(directory):
    write(directory / 'a.gin', '')
    read(gin_files=['a.gin'], search_paths=['http://host'])
    message = error_of(read, gin_files=['my.gin'], search_paths=['http://host'])
    assert 'cannot read http://host/my.gin' in message


# Other file systems.


@pytest.fixture
def gfile():
    from estimator_trainer.compat import tf

    return tf.io.gfile


def test_names_includes_and_search_paths_may_have_a_scheme(directory, gfile):
    write(directory / 'a.gin', "f.x = 1\ninclude 'ram://gin_config/b.gin'")
    gfile.makedirs('ram://gin_config')
    for name, text in (('b', "\ufefff.y = 2\ninclude 'c.gin'"), ('c', 'f.z = "é"')):
        with gfile.GFile(f'ram://gin_config/{name}.gin', 'w') as file:
            file.write(text)
    config = read(gin_files=[f'file://{directory}/a.gin'], search_paths=['ram://gin_config'])
    assert [config.literal(f'f.{name}') for name in 'xyz'] == [1, 2, 'é']
    assert [statement.where for statement in config.statements] == [
        f'file://{directory}/a.gin:1',
        'ram://gin_config/b.gin:1',
        'ram://gin_config/c.gin:1',
    ]


def test_remote_files_that_cannot_be_read(directory, gfile):
    gfile.makedirs('ram://gin_config_errors/folder.gin')
    for name, want_text in (
        ('ram://gin_config_errors/nope.gin', 'no such file'),
        ('ram://gin_config_errors/folder.gin', 'no such file'),
        ('nofs://bucket/a.gin', 'cannot read nofs://bucket/a.gin'),
        (f'file://{directory}/latin.gin', 'utf-8'),
        (f'file://{directory}/self.gin', 'includes itself'),
    ):
        write(directory / 'self.gin', f"include 'file://{directory}/self.gin'")
        (directory / 'latin.gin').write_bytes('a.b = "é"'.encode('latin-1'))
        assert want_text in error_of(read, gin_files=[name])


@pytest.mark.parametrize(
    ('name', 'params', 'search_paths', 'want_needed'),
    [
        ('penguins.gin', [], ['paths'], False),
        ('gs://b/my.gin', [], [], True),
        ('my.gin', [], ['gs://b'], False),  # found before it is looked for there
        ('penguins.gin', [], ['gs://b'], True),
        ('include_remote.gin', [], [], True),
        ('my.gin', ["include 'gs://b/c.gin'"], [], True),
        ('my.gin', ["f.x = 'gs://b/c.gin'"], [], False),
    ],
)
def test_needs_tensorflow(directory, name, params, search_paths, want_needed):
    write(directory / 'my.gin', '')
    write(directory / 'include_remote.gin', "include 'second.gin'")
    write(directory / 'second.gin', "include 'gs://b/c.gin'")
    assert gin_config.needs_tensorflow([name], search_paths, params) is want_needed


def test_local_files_need_no_tensorflow(directory):
    write(directory / 'my.gin', "include 'penguins.gin'")
    code = (
        'import sys; from estimator_trainer import gin_config; gin_config.read(["my.gin"], [], ["paths"]); '
        'print(sorted({"tensorflow", "numpy"} & set(sys.modules)))'
    )
    process = subprocess.run(
        [sys.executable, '-c', code], cwd=directory, env=program.environment(), capture_output=True, text=True
    )
    assert (process.stdout, process.returncode) == ('[]\n', 0), process.stderr


# What is in them.


@pytest.mark.parametrize(
    ('text', 'want_value'),
    [
        ('', 'default'),
        ('RunConfig.model_dir = "m"', 'm'),
        ('RunConfig.model_dir = "m"\nRunConfig.model_dir = "n"', 'n'),
        ('RunConfig.model_dir = None', None),
        ('RunConfig:\n  model_dir = "m"', 'm'),
        ('tf.estimator.RunConfig.model_dir = "m"', 'm'),
        ('estimator.RunConfig.model_dir = "m"', 'm'),
        ('MyRunConfig.model_dir = "m"', 'default'),
        ('my.Config.model_dir = "m"', 'default'),
        ('RunConfig.model_dirs = "m"', 'default'),
        ('eval/RunConfig.model_dir = "m"', 'default'),
        ('eval/tf.estimator.RunConfig.model_dir = "m"', 'default'),
        ('where = "m"\nRunConfig.model_dir = %where', 'm'),
        ('RunConfig.model_dir = %where\nwhere = "m"\nwhere = "n"', 'n'),
        ('RunConfig.model_dir = %where\nwhere = %there\nthere = "m"', 'm'),
        ('RunConfig.model_dir = %my/where\nwhere = "m"\nmy/where = "n"', 'n'),
        ('RunConfig.model_dir = @where/macro()\nwhere = "m"', 'm'),
        ('RunConfig.model_dir = "%where"\nwhere = "m"', '%where'),
    ],
)
def test_literal(text, want_value):
    assert read(text).literal('RunConfig.model_dir', 'default') == want_value


@pytest.mark.parametrize(
    ('text', 'want_repr'),
    [
        ('f.x = @mirrored()', '@mirrored()'),
        ('f.x = %a\na = @mirrored()', '@mirrored()'),
        ('f.x = @s/mirrored', '@s/mirrored'),
        ('f.x = %a\na = %a', '%a'),
        ('f.x = %a', '%a'),
    ],
)
def test_what_only_gin_can_tell_is_no_string(text, want_repr):
    # ... else a strategy's name would be looked for in it.
    value = read(text).literal('f.x')
    assert not isinstance(value, str)
    assert repr(value) == want_repr
