"""Modules that a configuration imports."""

import sys

import pytest

from estimator_trainer import gin_config
from estimator_trainer.gin_config import modules, sources
from tests.gin_config.helpers import error_of, read, write


def test_modules_are_those_of_flags_and_imports_but_not_ours():
    config = read(
        'from __gin__ import dynamic_registration\nimport model_fns.dense\nimport a.b\nfrom c import d', 'import e'
    )
    assert gin_config.user_modules(config, ['f', 'input_fns.csv']) == ['f', 'a.b', 'c.d', 'e']
    assert gin_config.user_modules(read('from __gin__ import dynamic_registration'), []) == []
    assert gin_config.user_modules(read('import model_fns.mine'), ['model_fns']) == ['model_fns.mine']


@pytest.mark.parametrize(
    ('text', 'want_texts'),
    [
        ('import my_modle', ['my.gin:1: import my_modle: no module named', "did you mean 'my_module'"]),
        ('import model_fns.dens', ["did you mean 'model_fns.dense'"]),
        ('import nowhere.at.all', ["no module named 'nowhere'"]),
        ('\nfrom my_module import part', ['my.gin:2', "no module named 'my_module.part'"]),
        ('from my_module import model_fn', ['model_fn is something in a module, so import that: import my_module']),
    ],
)
def test_missing_modules(directory, text, want_texts):
    write(directory / 'my_module.py', 'model_fn = 1')
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


@pytest.mark.parametrize('hiding', ['model_fns/__init__.py', 'model_fns.py'])
def test_a_package_that_hides_ours_is_named(directory, without_model_fns, hiding):
    write(directory / hiding, '')
    message = error_of(gin_config.import_modules, read('import model_fns.dense'), [])
    assert f"the package 'model_fns' in {directory.resolve()} hides" in message


def test_a_file_of_the_users_imports_the_users_package(directory, without_model_fns):
    write(directory / 'model_fns/__init__.py', '')
    write(directory / 'model_fns/dense.py', 'whose = "mine"')
    write(directory / 'my.gin', 'import model_fns.dense')
    gin_config.import_modules(read(gin_files=['my.gin']), [])
    assert sys.modules['model_fns.dense'].whose == 'mine'


@pytest.fixture
def installed(directory, monkeypatch, without_model_fns):
    """An installation with a config, top.gin, that imports model_fns.dense; Python finds it after the directory."""
    installed = directory / 'installed'
    write(installed / 'configs/top.gin', 'import model_fns.dense')
    write(installed / 'model_fns/__init__.py', '')
    write(installed / 'model_fns/dense.py', 'whose = "ours"')
    for module in (modules, sources):
        monkeypatch.setattr(module, 'INSTALL_ROOT', installed)
    monkeypatch.setattr(sources, 'CONFIGS', installed / 'configs')
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.syspath_prepend(str(directory))
    return installed


@pytest.mark.parametrize('files', [[], ['__init__.py', 'dense.py']])
def test_a_shipped_config_imports_what_ships(directory, installed, files):
    (directory / 'model_fns').mkdir()
    for name in files:
        write(directory / 'model_fns' / name, 'raise SystemExit("imported")')
    path = list(sys.path)
    gin_config.import_modules(read(gin_files=['top.gin']), [])
    assert sys.modules['model_fns.dense'].whose == 'ours'
    assert sys.path == path


@pytest.mark.parametrize('name', ['dense', 'other'])
def test_a_shipped_config_cannot_import_what_ships_beside_the_users_package(directory, installed, name):
    write(directory / 'model_fns/__init__.py', '')
    write(directory / f'model_fns/{name}.py', '')
    write(directory / 'my.gin', f"import model_fns.{name}\ninclude 'top.gin'")
    message = error_of(gin_config.import_modules, read(gin_files=['my.gin']), [])
    want_reason = f"import model_fns.dense: the package 'model_fns' in {directory.resolve()} hides the one that ships"
    assert message.startswith(f'configs/top.gin:1: {want_reason}')
