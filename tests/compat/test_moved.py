"""Programs find names that have moved; nobody else sees anything of it."""

import builtins
import importlib
import inspect
import pickle
import pkgutil
import sys
import warnings

import numpy as np
import pytest

from estimator_trainer.compat import moved, old_python, requirements, tf, views

pytestmark = pytest.mark.xdist_group('compat_moved')

needs_bridge = pytest.mark.skipif(not requirements.check().bridge, reason='this TensorFlow has it')
OLD = 'estimator_trainer.compat.old_python'


@pytest.fixture
def run():
    """Returns a function that runs statements as a module of some name, and returns what they define."""
    there = views.Views(moved.MOVED, moved.GONE)

    def execute(statements, name='program'):
        scope = {'__name__': name, '__builtins__': {**vars(builtins), '__import__': there._import_for}}
        exec(statements, scope)
        return scope

    return execute


@pytest.mark.parametrize('name', moved.MOVED)
def test_each_name_is_found(run, name):
    module, _, last = name.rpartition('.')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # numpy warns of what it has no longer
        found = run(f'from {module} import {last} as found' if module else f'import {name} as found')['found']
        try:
            want = pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            want = pkgutil.resolve_name(moved.MOVED[name])
    assert found is want or (type(found) is views.View and found._view[2] is want)


@pytest.mark.parametrize(
    'statement, expression, want_module, want_name',
    [
        ('from tensorflow.python.framework import ops', 'ops.Tensor', 'tensorflow.python.framework.tensor', 'Tensor'),
        (
            "o = __import__('tensorflow.python.framework.ops', fromlist=['Tensor'])",
            'o.Tensor',
            'tensorflow.python.framework.tensor',
            'Tensor',
        ),
        ('import tensorflow.python.framework.ops as o', 'o.Graph', 'tensorflow.python.framework.ops', 'Graph'),
        (
            'import tensorflow.python.ops.array_ops',
            'tensorflow.python.ops.array_ops.stack',
            'tensorflow.python.ops.array_ops_stack',
            'stack',
        ),
        (
            'import tensorflow as tf; from tensorflow.python.ops import control_flow_ops as c',
            'tf.python.ops.control_flow_ops.while_loop',
            'tensorflow.python.ops.while_loop',
            'while_loop',
        ),
        (
            'from tensorflow.python.training.tracking import base',
            'base.Trackable',
            'tensorflow.python.trackable.base',
            'Trackable',
        ),
        (
            'from tensorflow.python.training.tracking import tracking',
            'tracking.AutoTrackable',
            'tensorflow.python.trackable.autotrackable',
            'AutoTrackable',
        ),
        (
            'import tensorflow.python.training.tracking.data_structures as d',
            'd.NoDependency',
            'tensorflow.python.trackable.data_structures',
            'NoDependency',
        ),
        (
            'from tensorflow.python.training import distribution_strategy_context as d',
            'd.get_replica_context',
            'tensorflow.python.distribute.distribute_lib',
            'get_replica_context',
        ),
        (
            'from tensorflow.python.keras.preprocessing import sequence',
            'sequence.pad_sequences',
            'tensorflow.keras.preprocessing.sequence',
            'pad_sequences',
        ),
        (
            'import tensorflow.python.keras.utils as u',
            'u.to_categorical',
            'tensorflow.python.keras.utils.np_utils',
            'to_categorical',
        ),
        ('import tensorflow as tf', 'tf.estimator.Estimator', 'tensorflow.estimator', 'Estimator'),
        ('import tensorflow as tf', 'tf.data.experimental.Counter', 'tensorflow.data.experimental', 'Counter'),
        ('from tensorflow import *', 'float32', 'tensorflow', 'float32'),
        ('from collections import *', 'OrderedDict', 'collections', 'OrderedDict'),
        ('import collections', 'collections.Mapping', 'collections.abc', 'Mapping'),
        ('import inspect', 'inspect.signature', 'inspect', 'signature'),
        ('import numpy as np', 'np.float', 'builtins', 'float'),
        ('import numpy', 'numpy.float_', 'numpy', 'float64'),
        ('import numpy as np', 'np.NINF', OLD, 'NINF'),
        ('import numpy.random as r', 'r.rand', 'numpy.random', 'rand'),
    ],
)
def test_statements(run, statement, expression, want_module, want_name):
    found = eval(expression, run(statement))
    want = getattr(importlib.import_module(want_module), want_name)
    assert found is want or found == want


@pytest.mark.parametrize('name', ['tensorflow.python.x', 'tensorflow_estimator.x', 'tf_keras.x', 'keras', 'unittest.x'])
def test_insiders_get_the_real_modules(run, name):
    scope = run('import tensorflow as tf; from tensorflow.python.framework import ops; import inspect', name)
    assert scope['tf'] is tf
    assert scope['ops'] is sys.modules['tensorflow.python.framework.ops']
    assert scope['inspect'] is inspect
    assert run("found = __import__('tensorflow')", name)['found'] is tf
    assert not hasattr(scope['ops'], 'Tensor')


def test_real_modules_stay_as_they_are(run):
    ops = importlib.import_module('tensorflow.python.framework.ops')
    before = {**vars(ops)}, builtins.__import__
    run('from tensorflow.python.framework import ops; ops.Tensor, ops.register_tensor_conversion_function')
    assert ({**vars(ops)}, builtins.__import__) == before
    assert 'tensorflow.python.training.tracking' not in sys.modules


def test_a_view_passes_for_the_module(run):
    scope = run('import tensorflow as tf; from tensorflow.python.framework import ops')
    view, ops = scope['ops'], sys.modules['tensorflow.python.framework.ops']
    assert inspect.ismodule(view) and repr(view) == repr(ops)
    assert (view.__name__, view.__file__, view.__doc__) == (ops.__name__, ops.__file__, ops.__doc__)
    assert dir(view) == dir(ops) and vars(view) is vars(ops)
    assert inspect.getsource(view.Graph.as_default) == inspect.getsource(ops.Graph.as_default)
    assert pickle.loads(pickle.dumps(view.Tensor)) is tf.Tensor
    assert isinstance(tf.constant(1), view.Tensor)
    assert scope['tf'].python.framework.ops is view
    assert pickle.loads(pickle.dumps(view)) is ops
    with pytest.raises(AttributeError, match=r"module 'tensorflow' has no attribute 'nothing'"):
        _ = scope['tf'].nothing


def test_what_a_program_sets_is_set(run, monkeypatch):
    monkeypatch.setattr(tf, 'set_by_a_program', 0, raising=False)
    assert run('import tensorflow as tf; tf.set_by_a_program = 3; found = tf.set_by_a_program')['found'] == 3
    assert tf.set_by_a_program == 3


@pytest.mark.parametrize(
    'statement, want_error, want_words',
    [
        ('import tensorflow.contrib', ModuleNotFoundError, 'contrib is gone: TensorFlow 1.15 was the last.*--tf1'),
        ('from tensorflow.contrib import slim', ModuleNotFoundError, 'contrib is gone: TensorFlow 1.15'),
        ('import tensorflow.contrib.slim as slim', ModuleNotFoundError, 'contrib.slim is gone: TensorFlow 1.15'),
        ('from tensorflow import contrib', ImportError, 'contrib is gone: TensorFlow 1.15'),
        ('import tensorflow as tf; tf.contrib.tpu', AttributeError, 'contrib is gone: TensorFlow 1.15'),
        ('from tensorflow.examples.tutorials import mnist', ImportError, 'tutorials is gone: TensorFlow 1.15'),
        ('from tensorflow.python.training.tracking import no', ImportError, "cannot import name 'no'"),
        ('import tensorflow.python.training.tracking.no', ModuleNotFoundError, 'tracking'),
        (
            'from tensorflow_estimator.contrib.estimator.python.estimator import head',
            ModuleNotFoundError,
            'estimator is gone: tensorflow-estimator 1.15',
        ),
        ('import tensorflow.no', ModuleNotFoundError, "No module named 'tensorflow.no'"),
        ('from tensorflow import no', ImportError, "cannot import name 'no' from 'tensorflow'"),
        pytest.param(
            'import tensorflow as tf; tf.data.experimental.CheckpointInputPipelineHook',
            AttributeError,
            'CheckpointInputPipelineHook is gone: TensorFlow 2.15 was the last',
            marks=needs_bridge,
        ),
        pytest.param(
            'from tensorflow.compat.v1.tpu.experimental import AdamParameters',
            ImportError,
            'AdamParameters is gone: TensorFlow 2.15 was the last',
            marks=needs_bridge,
        ),
    ],
)
def test_what_is_gone_says_so(run, statement, want_error, want_words):
    with pytest.raises(want_error, match=want_words) as error:
        run(statement)
    assert '\n' not in str(error.value)


@pytest.mark.skipif(requirements.check().bridge, reason='this TensorFlow has it no longer')
def test_a_gone_name_that_is_there_is_given(run):
    run(
        'from tensorflow.data.experimental import CheckpointInputPipelineHook\n'
        'from tensorflow.compat.v1.tpu.experimental import AdamParameters'
    )


@pytest.mark.parametrize(
    'statement, expression, want',
    [
        ('from distutils.version import LooseVersion as V', "V('1.9') < V('1.10.0') < '2.0'", True),
        ('from distutils.version import LooseVersion as V', "str(V('1.13rc1')), V('1.13rc1').version", None),
        ('import distutils.version as v', "v.StrictVersion('1.2b3') < '1.2', v.StrictVersion('1.2') == '1.2.0'", None),
        ('from distutils import version', "[str(version.StrictVersion(v)) for v in ('1.2.0', '1.2.1a2')]", None),
        ('import distutils.util', "distutils.util.strtobool('Yes'), distutils.util.strtobool('off')", (1, 0)),
        ('from distutils.spawn import find_executable', "find_executable('no such program')", None),
        ('import imp', "imp.new_module('new').__name__", 'new'),
        ('from imp import reload', 'reload.__module__', 'importlib'),
    ],
)
def test_modules_that_python_3_12_has_not(run, monkeypatch, statement, expression, want):
    for name in ('distutils', 'distutils.version', 'distutils.util', 'distutils.spawn', 'imp'):
        monkeypatch.setitem(sys.modules, name, None)
    wants = {
        "str(V('1.13rc1')), V('1.13rc1').version": ('1.13rc1', [1, 13, 'rc', 1]),
        "v.StrictVersion('1.2b3') < '1.2', v.StrictVersion('1.2') == '1.2.0'": (True, True),
        "[str(version.StrictVersion(v)) for v in ('1.2.0', '1.2.1a2')]": ['1.2', '1.2.1a2'],
    }
    assert eval(expression, run(statement)) == wants.get(expression, want)


def test_load_source(tmp_path):
    (tmp_path / 'code.txt').write_text('x = 3')
    assert old_python.load_source('loaded', str(tmp_path / 'code.txt')).x == sys.modules.pop('loaded').x == 3
    (tmp_path / 'code.txt').write_text('1 / 0')
    with pytest.raises(ZeroDivisionError):
        old_python.load_source('loaded', str(tmp_path / 'code.txt'))
    assert 'loaded' not in sys.modules


def test_copy_tree(tmp_path):
    (tmp_path / 'from' / 'below').mkdir(parents=True)
    (tmp_path / 'from' / 'below' / 'a').write_text('a')
    old_python.mkpath(str(tmp_path / 'to' / 'below'))
    assert old_python.copy_tree(str(tmp_path / 'from'), str(tmp_path / 'to')) == [str(tmp_path / 'to' / 'below' / 'a')]


def test_getargspec():
    assert old_python.getargspec(lambda a, b=2, *c, **d: 0) == (['a', 'b'], 'c', 'd', (2,))
    with pytest.raises(ValueError, match='keyword-only'):
        old_python.getargspec(lambda *, a: 0)


def test_in1d():
    assert old_python.in1d([[1, 2], [3, 4]], [2, 3]).tolist() == [False, True, True, False]
    assert np.array_equal(old_python.in1d([1, 2], [2], invert=True), [True, False])
