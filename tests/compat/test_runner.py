"""A program behaves under the runner as it does under Python."""

import os
import zipfile
from pathlib import Path

import pytest

from estimator_trainer.compat import runner
from estimator_trainer.errors import UserError
from tests.compat import fresh

pytestmark = [pytest.mark.xdist_group('compat_runner'), pytest.mark.once('newest')]


@pytest.mark.parametrize(
    'line, want',
    [
        ('a.py', ('', False, ['a.py'])),
        ('a.py --tf1 -m x', ('', False, ['a.py', '--tf1', '-m', 'x'])),
        ('--tf1 a.py --doctor', ('--tf1', False, ['a.py', '--doctor'])),
        ('-m a.b c', ('', True, ['a.b', 'c'])),
        ('--tf1 -m a -m', ('--tf1', True, ['a', '-m'])),
        ('--doctor', ('--doctor', False, [])),
        ('--help', ('--help', False, [])),
    ],
)
def test_command_line(line, want):
    assert runner.parse(line.split()) == want


@pytest.mark.parametrize(
    'line, want_found', [('', 'nothing'), ('--tf1', 'nothing'), ('-m', 'nothing'), ('--tf2 a.py', '--tf2')]
)
def test_a_command_line_without_a_program(line, want_found):
    with pytest.raises(UserError, match=f'compat: {want_found} found where the program is expected: give'):
        runner.parse(line.split())


FACTS = """
'''What this program is.'''
import __main__, inspect, pickle, sys
class Point:
    def __init__(self): self.x = 3
print(sys.argv, sys.path[:2], sys.path.count(''), __name__, __doc__, __package__, __spec__ and __spec__.name)
print(__file__, type(__loader__).__name__, type(__builtins__), sys.modules['__main__'] is __main__)
print(__main__.Point is Point, pickle.loads(pickle.dumps(Point())).x, inspect.getsource(Point.__init__).strip())
sys.exit(3)
"""
FAILS = """
import importlib, sys
def fail():
    try:
        importlib.import_module('tensorflow_does_not_exist')
    except ImportError:
        import helper
fail()
"""
HOOK = """
import sys
sys.excepthook = lambda kind, error, trace: print('hook', kind, trace is error.__traceback__, trace.tb_next)
raise KeyError('x')
"""
ABSL = """
from absl import app, flags
flags.DEFINE_integer('count', 1, 'How many.')
def main(argv):
    print(argv, flags.FLAGS.count)
    return 4
if __name__ == '__main__':
    app.run(main)
"""


@pytest.mark.parametrize(
    'source, arguments, want_code',
    [
        (FACTS, ['-m', 'a', '--tf1'], 3),
        (FAILS, [], 1),
        (HOOK, [], 1),
        (ABSL, ['--count=3', 'rest'], 4),
        ('def f(:\n', [], 1),
        ('import sys; sys.exit("a reason")', [], 1),
        # A job in a shell's background, as CI's are, ignores the signal unless it is told not to.
        (
            'import os, signal; signal.signal(2, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT)',
            [],
            -2,
        ),
    ],
)
def test_a_script_runs_as_under_python(tmp_path, source, arguments, want_code):
    program = tmp_path / 'program.py'
    program.write_text(source)
    (tmp_path / 'helper.py').write_text('1 / 0')
    link = tmp_path / 'elsewhere' / 'link.py'
    link.parent.mkdir()
    link.symlink_to(program)
    _check_as_under_python([os.path.relpath(link, Path(fresh.__file__).parent), *arguments], want_code)


@pytest.mark.parametrize('module, want_code', [('package', 3), ('package.fails', 1), ('package.missing', 1)])
def test_a_module_runs_as_under_python(tmp_path, module, want_code):
    package = tmp_path / 'package'
    package.mkdir()
    (package / '__init__.py').write_text('import sys; print(sys.argv)')
    (package / '__main__.py').write_text(FACTS)
    (package / 'fails.py').write_text(FAILS)
    (package / 'helper.py').write_text('1 / 0')
    _check_as_under_python(['-m', module, 'a', 'b'], want_code, **_path(tmp_path))


def test_an_archive_runs_as_under_python(tmp_path):
    with zipfile.ZipFile(tmp_path / 'program.pyz', 'w') as archive:
        archive.writestr('__main__.py', 'import sys, other; print(sys.argv, sys.path[0], __name__)')
        archive.writestr('other.py', '')
    _check_as_under_python([str(tmp_path / 'program.pyz'), 'a'], 0)


def test_a_program_that_cannot_be_read():
    code, out, err = fresh.finish(fresh.start('-m', 'estimator_trainer.compat', 'missing.py'))
    assert (code, out) == (2, '')
    assert err.endswith('estimator_trainer.compat: cannot open missing.py: No such file or directory\n')


@pytest.mark.parametrize('command', ['program.py', '--tf1 program.py', '-m json.tool', '--tf1 -m json.tool --doctor'])
def test_a_bridge_that_cannot_be_installed(tmp_path, command):
    metadata = tmp_path / 'tensorflow_estimator-2.14.0.dist-info' / 'METADATA'
    metadata.parent.mkdir()
    metadata.write_text('Metadata-Version: 2.1\nName: tensorflow-estimator\nVersion: 2.14.0\n')
    found = fresh.finish(fresh.start('-m', 'estimator_trainer.compat', *command.split(), **_path(tmp_path)))
    want = 'tensorflow-estimator 2.14.0 found, 2.15.0 expected: pip install "tensorflow-estimator==2.15.0"\n'
    assert found == (2, '', want)


def test_a_package_that_python_runs_gets_the_bridge(tmp_path):
    package = tmp_path / 'package'
    package.mkdir()
    (package / '__init__.py').write_text('from estimator_trainer.compat import tf')
    (package / '__main__.py').write_text('from package import tf; print(tf.estimator.ModeKeys.TRAIN)')
    assert fresh.last_line(fresh.start('-m', 'package', '--doctor', **_path(tmp_path))) == 'train'


def test_a_program_may_import_compat(tmp_path):
    (tmp_path / 'program.py').write_text('from estimator_trainer.compat import tf; print(tf.estimator.ModeKeys.TRAIN)')
    command = ['-m', 'estimator_trainer.compat', str(tmp_path / 'program.py')]
    assert fresh.last_line(fresh.start(*command)) == 'train'


def _path(directory):
    return {'PYTHONPATH': os.pathsep.join(filter(None, [str(directory), os.environ.get('PYTHONPATH')]))}


def _check_as_under_python(command, want_code, **environment):
    code, out, err = fresh.finish(fresh.start(*command, **environment))
    assert code == want_code, err
    assert (out or err) != ''
    ours = fresh.finish(fresh.start('-m', 'estimator_trainer.compat', *command, **environment))
    assert ours[:2] == (code, out), ours[2]
    # TensorFlow has its say when it is imported, before the program starts.
    assert ours[2].endswith(err)
    assert ours[2].count('Traceback') == err.count('Traceback')
