"""What a configuration says before gin knows it, what gin makes of it, and one-line errors for what is wrong in it."""

import sys
import textwrap

import gin
import pytest

from estimator_trainer import gin_config
from estimator_trainer.errors import UserError
from estimator_trainer.settings import trainer  # what the tests bind


@gin.configurable(module='gin_config_test')
def needy(size=gin.REQUIRED, depth=gin.REQUIRED):
    return size, depth


@gin.configurable(module='gin_config_test')
def plain(size, depth=1):
    return size, depth


@gin.configurable(module='gin_config_test')
class Keeper:
    def __init__(self, size=1, **rest):
        self.size = size


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch, clean_gin):
    """Every test runs in a directory of its own, from which modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def without_model_fns(monkeypatch):
    """Nobody has imported model_fns yet, and what the test imports under this name is forgotten after it."""
    forget = [name for name in sys.modules if name.partition('.')[0] == 'model_fns'] or ['model_fns']
    for name in forget:
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


def read(*gin_params, gin_files=(), search_paths=()):
    return gin_config.read(gin_files, gin_params, search_paths)


def error_of(function, *args, **kwargs):
    with pytest.raises(UserError) as caught:
        function(*args, **kwargs)
    message = str(caught.value)
    assert '\n' not in message
    return message


# Where files are found.


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
    assert source.path.endswith('configs/penguins.gin')


def test_includes_are_found_as_files_are_and_come_first(directory):
    write(directory / 'paths/base.gin', 'experiment.max_steps = 1\nexperiment.eval_steps = 1')
    write(directory / 'my.gin', "include 'base.gin'\nexperiment.max_steps = 2")
    config = read("include 'base.gin'", gin_files=['my.gin'], search_paths=['paths'])
    assert [source.name for source in config.sources] == ['my.gin', '--gin_param #1']
    assert config.literal('experiment.max_steps') == 1
    assert read(gin_files=['my.gin'], search_paths=['paths']).literal('experiment.max_steps') == 2


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
    ],
)
def test_files_that_cannot_be_read(directory, name, want_texts):
    write(directory / 'mine.gin', '')
    write(directory / 'self.gin', "include 'self.gin'")
    write(directory / 'a.gin', "include 'b.gin'")
    write(directory / 'b.gin', "\ninclude 'a.gin'")
    write(directory / 'lost.gin', "include 'nowhere.gin'")
    (directory / 'paths').mkdir()
    (directory / 'latin.gin').write_bytes('a.b = "é"'.encode('latin-1'))
    message = error_of(read, gin_files=[name], search_paths=['paths'])
    for want_text in want_texts:
        assert want_text in message


# What is in them.


@pytest.mark.parametrize(
    ('text', 'want_value'),
    [
        ('', 'default'),
        ('RunConfig.model_dir = "m"', 'm'),
        ('RunConfig.model_dir = "m"\nRunConfig.model_dir = "n"', 'n'),
        ('RunConfig.model_dir = None', None),
        ('tf.estimator.RunConfig.model_dir = "m"', 'm'),
        ('estimator.RunConfig.model_dir = "m"', 'm'),
        ('MyRunConfig.model_dir = "m"', 'default'),
        ('my.Config.model_dir = "m"', 'default'),
        ('RunConfig.model_dirs = "m"', 'default'),
        ('eval/RunConfig.model_dir = "m"', 'default'),
        ('eval/tf.estimator.RunConfig.model_dir = "m"', 'default'),
        ('RunConfig.model_dir = %where', 'default of %where'),
        ('where = "m"\nRunConfig.model_dir = %where', 'm'),
        ('RunConfig.model_dir = %where\nwhere = "m"\nwhere = "n"', 'n'),
        ('RunConfig.model_dir = %where\nwhere = %there\nthere = "m"', 'm'),
        ('RunConfig.model_dir = %my/where\nwhere = "m"\nmy/where = "n"', 'n'),
        ('RunConfig.model_dir = "%where"\nwhere = "m"', '%where'),
    ],
)
def test_literal(text, want_value):
    value = read(text).literal('RunConfig.model_dir', 'default')
    if want_value == 'default of %where':
        assert not isinstance(value, str)
        assert repr(value) == "'%where'"
    else:
        assert value == want_value


@pytest.mark.parametrize(
    'text', ['f.x = @mirrored()', 'f.x = %a\na = @mirrored()', 'f.x = @mirrored', 'f.x = %a\na = %a', 'f.x = %a']
)
def test_what_only_gin_can_tell_is_no_string(text):
    # ... else a strategy's name would be looked for in it.
    assert not isinstance(read(text).literal('f.x'), str)


@pytest.mark.parametrize(
    ('text', 'want_message'),
    [
        ('f.x = 1\nf.y = text', "bad.gin:2: f.y = text: strings need quotes: f.y = 'text'"),
        ('f.x = gs://bucket/dir', "bad.gin:1: f.x = gs://bucket/dir: strings need quotes: f.x = 'gs://bucket/dir'"),
        ('f.x = true', 'bad.gin:1: f.x = true: not a Python value; did you mean f.x = True?'),
        ('\n\nf.x = null', 'bad.gin:3: f.x = null: not a Python value; did you mean f.x = None?'),
        ('f.x', 'bad.gin:1: f.x: '),
        ('f.x 1', 'bad.gin:1: f.x 1: '),
        ('f.x = [1,', 'bad.gin:1: f.x = [1,: '),
        ("f.x = 'a", 'bad.gin:1: '),
        ('f.x = 1 2', 'bad.gin:1: f.x = 1 2: '),
        ('f.x = {a: 1}', "bad.gin:1: f.x = {a: 1}: Failed to parse token 'a'; expected gin's configurable"),
        ('f..x = 1', 'bad.gin:1: f..x = 1: '),
        ('import a b', 'bad.gin:1: import a b: '),
        ('include base', "bad.gin:1: include base: Failed to parse token 'base'; "),
    ],
)
def test_syntax_errors_name_file_and_line(directory, text, want_message):
    write(directory / 'bad.gin', text)
    message = error_of(read, gin_files=['bad.gin'])
    assert message.startswith(want_message), message


def test_syntax_error_in_an_included_file_names_that_file(directory):
    write(directory / 'bad.gin', 'f.x = 1\nf.y = text')
    write(directory / 'my.gin', "\n\n\ninclude 'bad.gin'")
    assert error_of(read, gin_files=['my.gin']).startswith('bad.gin:2: f.y = text')


def test_the_number_of_the_param_at_fault():
    assert error_of(read, 'f.x = 1', 'f.y = text').startswith('--gin_param #2: f.y = text: strings need quotes')


# Modules.


def test_modules_are_those_of_flags_and_imports_but_not_ours():
    config = read(
        'from __gin__ import dynamic_registration\nimport model_fns.dense\nimport a.b\nfrom c import d', 'import e'
    )
    assert gin_config.user_modules(config, ['f', 'input_fns.csv']) == ['f', 'a.b', 'c.d', 'e']
    assert gin_config.user_modules(read('from __gin__ import dynamic_registration'), []) == []


@pytest.mark.parametrize(
    ('text', 'want_texts'),
    [
        ('import my_modle', ['my.gin:1: import my_modle: no module named', "did you mean 'my_module'"]),
        ('import model_fns.dens', ["did you mean 'model_fns.dense'"]),
        ('import nowhere.at.all', ["no module named 'nowhere'"]),
        ('\nfrom my_module import part', ['my.gin:2', "no module named 'my_module.part'"]),
    ],
)
def test_missing_modules(directory, text, want_texts):
    write(directory / 'my_module.py', '')
    write(directory / 'my.gin', text)
    message = error_of(gin_config.import_modules, read(gin_files=['my.gin']), [])
    for want_text in want_texts:
        assert want_text in message


def test_missing_module_of_the_flag():
    assert error_of(gin_config.import_modules, read(), ['nowhere']).startswith('--import_module=nowhere: no module')


def test_what_a_module_lacks_is_its_own_error(directory):
    write(directory / 'lacking.py', 'import surely_not_installed')
    with pytest.raises(ModuleNotFoundError, match='surely_not_installed'):
        gin_config.import_modules(read('import lacking'), [])


def test_a_package_that_hides_ours_is_named(directory, without_model_fns):
    write(directory / 'model_fns/__init__.py', '')
    message = error_of(gin_config.import_modules, read('import model_fns.dense'), [])
    assert f"the package 'model_fns' in {directory.resolve()} hides" in message


# What gin makes of it.


def apply(*gin_params, overrides=None, **kwargs):
    gin_config.apply(read(*gin_params, **kwargs), overrides or {})


def test_the_last_one_wins_and_flags_come_last(directory):
    write(directory / 'a.gin', 'trainer.grace_period = 1\ntrainer.peer_timeout = 1\ntrainer.startup_timeout = 1')
    write(directory / 'b.gin', 'trainer.peer_timeout = 2\ntrainer.startup_timeout = 2')
    params = ['trainer.startup_timeout = 3', 'trainer.startup_timeout = 4\ntrainer.throttle_secs = 4']
    overrides = {'trainer.throttle_secs': ('--throttle', 5)}
    apply(*params, gin_files=['a.gin', 'b.gin'], overrides=overrides)
    settings = trainer()
    assert (settings.grace_period, settings.peer_timeout, settings.startup_timeout) == (1, 2, 4)
    assert settings.throttle_secs == 5


@pytest.mark.parametrize(
    ('text', 'want_message'),
    [
        ('trainr.grace_period = 1', "my.gin:3: trainr.grace_period = 1: No configurable matching 'trainr'; did you"),
        ('trainer.grace_perod = 1', "did you mean 'grace_period'"),
        ('plain.zzz = 1', '; it has size, depth'),
        ('plain.size = @neddy()', "did you mean 'needy'"),
        ('plain.size = @zzzzzzzz', 'add `import <module>` at the top of the gin file'),
        ('plain.size = [1, %SIZ]\nSIZE = 1', 'my.gin:3: plain.size = [1, %SIZ]: macro %SIZ is not defined; did you'),
    ],
)
def test_unknown_names_are_one_line_with_their_place(directory, text, want_message):
    write(directory / 'my.gin', f'\n\n{text}')
    message = error_of(apply, gin_files=['my.gin'])
    assert message.startswith('my.gin:3: ') or str(directory / 'my.gin:3: ') in message, message
    assert want_message in message


def test_unknown_name_in_an_included_file_names_that_file(directory):
    write(directory / 'base.gin', '\ntrainr.grace_period = 1')
    write(directory / 'my.gin', "include 'base.gin'")
    assert 'base.gin:2: trainr.grace_period = 1' in error_of(apply, gin_files=['my.gin'])


def test_unknown_binding_of_a_flag_names_the_flag():
    message = error_of(apply, overrides={'trainr.grace_period': ('--grace', 1)})
    assert message.startswith("--grace: No configurable matching 'trainr'")


@pytest.mark.parametrize(
    ('selector', 'want_names'),
    [('plain', ['size', 'depth']), ('gin_config_test.needy', ['size', 'depth']), ('Keeper', ['size'])],
)
def test_parameters_of(selector, want_names):
    assert gin_config.parameters_of(selector) == want_names


# Errors that gin raises when a configurable is called.


@pytest.mark.parametrize(
    ('call', 'want_message'),
    [
        (needy, 'needy.size has no value: bind it, e.g. --gin_param="needy.size = ..."'),
        (lambda: needy(1), 'needy.depth has no value: bind it, e.g. --gin_param="needy.depth = ..."'),
        (plain, 'plain.size has no value: bind it, e.g. --gin_param="plain.size = ..."'),
        (lambda: plain(1, 2, 3), None),
        (lambda: [].pop(), None),
        (lambda: None + 1, None),
    ],
)
def test_missing_binding(call, want_message):
    with pytest.raises(Exception) as caught:
        call()
    error = gin_config.missing_binding(caught.value)
    if want_message is None:
        assert error is None
    else:
        assert isinstance(error, UserError)
        assert str(error) == want_message


@pytest.mark.parametrize(
    ('error', 'want_line'),
    [
        (ValueError('bad'), 'bad'),
        (ValueError('bad\n  In call to configurable \'f\' (<function f>)\n  In file "a.gin", line 3'), 'bad'),
        (ValueError('two\nlines\n  In bindings string line 1\n    a.b = 1'), 'two\nlines'),
        (KeyError('name'), "'name'"),
        (ValueError(), ''),
    ],
)
def test_first_line(error, want_line):
    assert gin_config.first_line(error) == want_line
