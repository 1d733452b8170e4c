"""Model_fns, canned Estimators and Keras models: what they become, what they start from, and mistakes with them."""

import importlib.metadata
import shutil

import numpy as np
import pytest

from estimator_trainer import models
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.experiment import Experiment
from estimator_trainer.topology import Task, Topology
from tests import plain, program
from tests.conftest import MY_GIN, MY_MODEL
from tests.line_module import LINE_GIN
from tests.program import bind

pytestmark = pytest.mark.once('oldest')

CHIEF = Topology({'chief': ('a:1',), 'ps': ('b:1',)}, Task('chief', 0))
COLUMNS = [tf.feature_column.numeric_column('x', [2])]
SETTINGS = tf.estimator.WarmStartSettings('elsewhere')


def model_fn(features, mode):
    return tf.estimator.EstimatorSpec(mode, predictions={'y': features['x']})


def linear(config):
    return tf.estimator.LinearClassifier(COLUMNS, config=config)


def warm_linear(config):
    return tf.estimator.LinearClassifier(COLUMNS, config=config, warm_start_from=SETTINGS)


def config(**fields):
    return tf.estimator.RunConfig('M', **fields)


def test_a_model_fn_is_taken_as_it_is():
    assert models.model_of(Experiment(model_fn=model_fn), config()) == (model_fn, None)


def test_a_canned_estimator_gives_its_model_fn():
    function, warm_start = models.model_of(Experiment(estimator=linear), config())
    with tf.Graph().as_default():
        spec = function({'x': tf.ones([3, 2])}, None, tf.estimator.ModeKeys.PREDICT, config())
    assert 'probabilities' in spec.predictions
    assert warm_start is None


def test_an_estimator_is_made_anew_for_each_config():
    made = []

    def factory(config):
        made.append(config)
        return linear(config)

    ours = config(tf_random_seed=3)
    models.model_of(Experiment(estimator=factory), ours)
    assert [(one.model_dir, one.tf_random_seed) for one in made] == [('M', 3)]


def test_what_the_experiment_starts_from_goes_before_what_the_estimator_does(tmp_path):
    (tmp_path / 'model.ckpt-1.index').touch()
    given = str(tmp_path / 'model.ckpt-1')
    assert models.model_of(Experiment(estimator=warm_linear), config())[1] is SETTINGS
    assert models.model_of(Experiment(estimator=warm_linear, warm_start_from=given), config())[1] == given
    assert models.model_of(Experiment(model_fn=model_fn, warm_start_from=given), config())[1] == given


@pytest.mark.parametrize(
    ('fields', 'want'),
    [
        ({'estimator': lambda: None}, 'experiment.estimator: <lambda> takes no `config`, so it makes no Estimator'),
        ({'estimator': lambda config: 3}, 'experiment.estimator: <lambda> returned 3; expected an Estimator'),
        ({'keras_model': tf.keras.Model}, 'experiment.keras_model: Model is a class; expected a function that returns'),
        ({'keras_model': lambda: None}, "<lambda> returned <class 'NoneType'>; expected a tf.keras.Model"),
    ],
)
def test_what_is_no_model(fields, want):
    with pytest.raises(UserError) as caught:
        models.model_of(Experiment(**fields), config())
    assert want in str(caught.value)


@pytest.mark.parametrize(('topology', 'want_same'), [(Topology(), True), (CHIEF, False)])
def test_who_evaluates_needs_no_cluster(topology, want_same):
    model = models.Model(Experiment(model_fn=model_fn), config(), topology)
    assert model.estimator is model.estimator
    assert model.evaluating_estimator is model.evaluating_estimator
    assert (model.evaluating_estimator is model.estimator) == want_same
    assert not model.evaluating_estimator.config.cluster_spec
    assert model.evaluating_estimator.model_dir == model.estimator.model_dir == 'M'


def test_the_chiefs_hook_is_asked_for_in_training_alone():
    def training_model_fn(features, labels, mode):
        step = tf.compat.v1.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(mode, {'y': step}, tf.constant(0.0), step.assign_add(1).op)

    model = models.Model(Experiment(model_fn=training_model_fn), config(), Topology())
    hook = tf.compat.v1.train.SessionRunHook()
    model.chief_hook = lambda scaffold: hook
    hooks = {}
    for mode in (tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL):
        with tf.Graph().as_default():
            hooks[mode] = model.estimator.model_fn({'x': tf.ones([1, 2])}, None, mode, config()).training_chief_hooks
    assert [list(hooks[mode]) for mode in hooks] == [[hook], []]


MY = ['--gin_file=my.gin', '--import_module=models_module', '--seed=1']
NO_MODEL_FN = [*MY, *bind('experiment.model_fn = None')]
DNN = [
    *(*NO_MODEL_FN, *bind('experiment.estimator = @DNNClassifier', 'DNNClassifier.hidden_units = [4]')),
    *bind(
        'DNNClassifier.feature_columns = [@numeric_column()]', "numeric_column.key = 'x'", 'numeric_column.shape = [2]'
    ),
]
LINE = ['--gin_file=line.gin', '--seed=1']
ONE_STEP = [*LINE, '--max_steps=1']
KERAS = [*NO_MODEL_FN, *bind('experiment.keras_model = @weighted_keras_model'), '--max_steps=1']


# name -> (arguments, what the one line of the message must hold)
MISTAKES = {
    'none': (NO_MODEL_FN, 'experiment.model_fn is not bound; expected e.g. experiment.model_fn = @my_model_fn'),
    'two': (
        [*MY, *bind('experiment.estimator = @linear')],
        'expected exactly one of model_fn, estimator, keras_model; found model_fn and estimator',
    ),
    'three': (
        [*MY, *bind('experiment.estimator = @linear'), *bind('experiment.keras_model = @weighted_keras_model')],
        'found model_fn and estimator and keras_model',
    ),
    'without config': (
        [*NO_MODEL_FN, *bind('experiment.estimator = @without_config')],
        'without_config takes no `config`',
    ),
    'no estimator': (
        [*NO_MODEL_FN, *bind('experiment.estimator = @no_estimator')],
        "experiment.estimator: no_estimator returned 'an estimator'; expected an Estimator",
    ),
    'class of no estimator': (
        [*NO_MODEL_FN, *bind('experiment.estimator = @NoEstimator')],
        'experiment.estimator: NoEstimator',
    ),
    'keras model as estimator': (
        [*NO_MODEL_FN, *bind('experiment.estimator = @weighted_keras_model')],
        'weighted_keras_model takes no `config`',
    ),
    'estimator as model_fn': (
        [*MY, *bind('experiment.model_fn = @linear')],
        'experiment.model_fn: linear takes no `features`',
    ),
    'name': ([*NO_MODEL_FN, *bind("experiment.estimator = 'linear'")], 'did you mean @linear?'),
    'uncompiled': (
        [*NO_MODEL_FN, *bind('experiment.keras_model = @uncompiled_keras_model')],
        'the model that uncompiled_keras_model returns is not compiled; call model.compile()',
    ),
    'no keras model': (
        [*NO_MODEL_FN, *bind('experiment.keras_model = @no_keras_model')],
        "no_keras_model returned <class 'NoneType'>; expected a tf.keras.Model",
    ),
    'keras class': (
        [*NO_MODEL_FN, *bind('experiment.keras_model = @KerasModel')],
        'experiment.keras_model: KerasModel is a class; expected a function that returns a compiled model',
    ),
    'keras 3': (
        [*NO_MODEL_FN, *bind('experiment.keras_model = @keras_3_model')],
        'expected a tf.keras.Model; it is of Keras 3: build it with tf.keras',
    ),
    'no warm start': (
        [*LINE, *bind("experiment.warm_start_from = 'no/where'")],
        "warm_start_from: no checkpoint 'no/where'",
    ),
    'warm start of 3': (
        [*LINE, *bind('experiment.warm_start_from = 3')],
        'experiment.warm_start_from: expected a checkpoint',
    ),
    'no warm start of an estimator': (
        [*DNN, *bind("DNNClassifier.warm_start_from = 'no/where'")],
        "warm_start_from: no checkpoint 'no/where'",
    ),
    'no warm start in settings': (
        [
            *(*LINE, *bind('experiment.warm_start_from = @WarmStartSettings()')),
            *bind("WarmStartSettings.ckpt_to_initialize_from = 'nowhere'"),
        ],
        "warm_start_from: no checkpoint 'nowhere'",
    ),
}

SOURCES = {'line': [*LINE, *bind('experiment.exporters = [@FinalExporter()]')], 'dnn': [*DNN, '--max_steps=20']}
RUNS = {
    'checkpoint': [*ONE_STEP, *bind("experiment.warm_start_from = 'line/model.ckpt-10'")],
    'directory': [*ONE_STEP, *bind("experiment.warm_start_from = 'line'")],
    'saved model': [*ONE_STEP, *bind("experiment.warm_start_from = 'line/export/final/EXPORT'")],
    'settings': [
        *(*ONE_STEP, *bind('experiment.warm_start_from = @WarmStartSettings()')),
        *bind("WarmStartSettings.ckpt_to_initialize_from = 'line'", "WarmStartSettings.vars_to_warm_start = 'w'"),
    ],
    'mirrored': [*ONE_STEP, '--strategy=mirrored', *bind("experiment.warm_start_from = 'line'")],
    'resumed': [*LINE, '--max_steps=31'],
    'resumed, not warm': [*LINE, '--max_steps=31', *bind("experiment.warm_start_from = 'line/model.ckpt-10'")],
    'warm dnn': [*DNN, '--max_steps=1', *bind("DNNClassifier.warm_start_from = 'dnn'")],
    'legacy adam': [
        *(*DNN, '--max_steps=100'),
        *bind('DNNClassifier.optimizer = @LegacyAdam()', 'LegacyAdam.learning_rate = 0.05'),
    ],
    'own estimator': [*NO_MODEL_FN, '--max_steps=10', *bind('experiment.estimator = @own_estimator')],
    'factory': [*NO_MODEL_FN, '--max_steps=10', *bind('experiment.estimator = @linear')],
    'keras': KERAS,
    'keras mirrored': [*KERAS, '--strategy=mirrored'],
}


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result)."""
    directory = tmp_path_factory.mktemp('models')
    for name in ('line_module.py', 'models_module.py'):
        shutil.copy(program.TESTS / name, directory)
    for name, text in {'my_model.py': MY_MODEL, 'my.gin': MY_GIN, 'line.gin': LINE_GIN}.items():
        (directory / name).write_text(text)
    results = {}
    for cases in (SOURCES, RUNS, {name: arguments for name, (arguments, _) in MISTAKES.items()}):
        for name in set(cases) & {'resumed', 'resumed, not warm'}:
            shutil.copytree(directory / 'line', directory / name)
        exports = [path.name for path in (directory / 'line' / 'export' / 'final').glob('*')]
        commands = {
            name: [*(one.replace('EXPORT', ''.join(exports)) for one in arguments), f'--model_dir={name}']
            for name, arguments in cases.items()
        }
        results |= program.run_forked(commands, directory)
    return directory, results


@pytest.fixture(scope='module')
def found(runs):
    """Name -> variable -> array: of checkpoint 0 of a run, and others."""
    _, results = runs
    for name in RUNS:
        results[name].check()
    steps = dict.fromkeys(['checkpoint', 'directory', 'saved model', 'settings', 'mirrored'], 0)
    steps |= dict.fromkeys(['warm dnn', 'keras', 'keras mirrored'], 0)
    checkpoints = {name: f'{name}/model.ckpt-{step}' for name, step in steps.items()}
    checkpoints |= {f'line {step}': f'line/model.ckpt-{step}' for step in (0, 10, 30)}
    checkpoints |= {name: name for name in ('dnn', 'resumed', 'resumed, not warm', 'legacy adam')}
    return plain.read({name: ('variables', path) for name, path in checkpoints.items()}, runs[0])


@pytest.mark.parametrize('name', MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(runs, name):
    directory, results = runs
    if name == 'keras 3' and not importlib.metadata.version('keras').startswith('3.'):
        pytest.skip('no Keras 3 here')
    result = results[name].check(2)
    errors = [one for one in result.err.splitlines() if one.startswith('estimator_trainer: error: ')]
    assert len(errors) == 1, result.err
    assert MISTAKES[name][1] in errors[0]
    assert 'Traceback' not in result.err
    assert not (directory / name).exists()


@pytest.mark.parametrize('name', ['keras', 'keras mirrored'])
def test_the_first_weights_of_a_keras_model_are_its_own(found, name):
    np.testing.assert_array_equal(found[name]['dense/kernel'], [[0.25], [-4.0]])
    np.testing.assert_array_equal(found[name]['dense/bias'], [8.0])


@pytest.mark.parametrize(
    ('name', 'want_w', 'want_b'),
    [
        ('checkpoint', 'line 10', 'line 10'),
        ('directory', 'line 30', 'line 30'),
        ('saved model', 'line 30', 'line 30'),
        ('settings', 'line 30', 'line 0'),
        ('mirrored', 'line 30', 'line 30'),
    ],
)
def test_variables_start_from_another_checkpoint(found, name, want_w, want_b):
    assert found['line 10']['b'] != found['line 30']['b'] != found['line 0']['b']
    np.testing.assert_array_equal(found[name]['w'], found[want_w]['w'])
    np.testing.assert_array_equal(found[name]['b'], found[want_b]['b'])
    assert found[name]['global_step'] == 0


def test_a_checkpoint_in_model_dir_goes_before_a_warm_start(runs, found):
    directory, _ = runs
    assert program.summary(directory / 'resumed, not warm')['restored_from'] == 'resumed, not warm/model.ckpt-30'
    assert found['resumed']['global_step'] == found['resumed, not warm']['global_step'] == 31
    for variable in ('w', 'b'):
        np.testing.assert_array_equal(found['resumed'][variable], found['resumed, not warm'][variable])


def test_a_canned_estimator_starts_from_what_it_was_given(found):
    names = [name for name in found['warm dnn'] if name.endswith(('/kernel', '/bias'))]
    assert len(names) == 4
    for name in names:
        np.testing.assert_array_equal(found['warm dnn'][name], found['dnn'][name])
    assert found['warm dnn']['global_step'] == 0


def test_an_optimizer_object_trains_a_canned_estimator(runs, found):
    directory, _ = runs
    (evaluation,) = program.summary(directory / 'legacy adam')['evaluations']
    assert evaluation['metrics']['accuracy'] > 0.85
    assert any(name.endswith('/Adam/m') or 'Adam' in name or name.endswith('/m') for name in found['legacy adam'])


@pytest.mark.parametrize('name', ['own estimator', 'factory'])
def test_a_function_may_return_any_estimator(runs, name):
    directory, _ = runs
    summary = program.summary(directory / name)
    assert (summary['status'], summary['final_step'], summary['examples']) == ('done', 10, 80)
    assert summary['evaluations'][0]['step'] == 10
