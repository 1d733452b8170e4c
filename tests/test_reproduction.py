"""config.gin repeats a run bit for bit, a seed all that is drawn; what a run leaves of its configuration."""

import shutil

import pytest

from tests import plain, program
from tests.conftest import MY_GIN, MY_MODEL
from tests.line_module import LINE_GIN
from tests.program import bind

pytestmark = pytest.mark.once('newest')

USER = ['--gin_file=my.gin', '--import_module=user_module', '--seed=3', '--max_steps=12']
RANDOM = ['--gin_file=random.gin', '--max_steps=12']

# name -> arguments of a run whose config.gin must repeat it.
RUNS = {
    'digits': ['--gin_file=digits.gin', '--max_steps=40', '--seed=5', *bind('conv_model_fn.learning_rate = 0.001')],
    'penguins': ['--gin_file=penguins.gin', '--max_steps=40', *bind('dense_model_fn.hidden_units = [8, 4]')],
    'imported': [*USER, *bind('experiment.train_input_fn = @finite_input_fn', 'finite_input_fn.examples = 60')],
    'scoped': [
        *(*USER, *bind('experiment.train_input_fn = @a/b/my_input_fn', 'my_input_fn.repeat = False')),
        *bind('a/my_input_fn.repeat = True', 'a/b/my_input_fn.batch_size = 5'),
    ],
    'included': ['--gin_search_path=gins', '--gin_file=outer.gin', *bind("how = 'one_device'")],
    'canned': [
        *(*USER, *bind('experiment.model_fn = None', 'experiment.estimator = @DNNClassifier')),
        *bind('DNNClassifier.feature_columns = [@numeric_column()]', 'DNNClassifier.hidden_units = [4]'),
        *bind("numeric_column.key = 'x'", 'numeric_column.shape = [2]', 'DNNClassifier.dropout = 0.2'),
        *bind('DNNClassifier.optimizer = @LegacyAdam()', 'LegacyAdam.learning_rate = 0.02'),
    ],
    'keras': [
        *(*USER, *bind('experiment.model_fn = None', 'experiment.keras_model = @my_keras_model')),
        *bind('my_keras_model.units = 5'),
    ],
    'mirrored': ['--gin_file=penguins.gin', '--max_steps=20', '--strategy=mirrored'],
    'random': [*RANDOM, '--seed=1'],
}
OTHERS = {
    'random again': [*RANDOM, '--seed=1'],
    'random, another seed': [*RANDOM, '--seed=2'],
    'resumed': ['--gin_file=line.gin', '--max_steps=10', '--seed=1'],
    'stopped before the first step': ['--gin_file=line.gin', *bind('experiment.hooks = [@FailAtOnce()]')],
}

# An included file is looked for beside the one that includes it, and in the search path.
OUTER_GIN = """\
include 'inner.gin'
experiment.max_steps = %steps
RunConfig.train_distribute = %how
RunConfig.tf_random_seed = 7
steps = 11
my_input_fn.batch_size = %batch
"""
INNER_GIN = """\
include 'my.gin'
steps = 100
batch = 6
how = 'none'
"""
RANDOM_GIN = """\
import random_module
experiment.model_fn = @random_model_fn
experiment.train_input_fn = @random_input_fn
experiment.eval_input_fn = @random_input_fn
experiment.eval_steps = 1
"""


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result); 'name again' is the run of the config.gin of 'name'."""
    directory = tmp_path_factory.mktemp('reproduction')
    for name in ('line_module.py', 'user_module.py', 'random_module.py'):
        shutil.copy(program.TESTS / name, directory)
    (directory / 'gins').mkdir()
    files = {'my_model.py': MY_MODEL, 'my.gin': MY_GIN, 'line.gin': LINE_GIN, 'random.gin': RANDOM_GIN}
    for name, text in (files | {'gins/outer.gin': OUTER_GIN, 'gins/inner.gin': INNER_GIN}).items():
        (directory / name).write_text(text)
    first = {name: [*arguments, f'--model_dir={name}'] for name, arguments in (RUNS | OTHERS).items()}
    repeated = {f'{name} of config.gin': [f'--gin_file={name}/config.gin'] for name in RUNS}
    results = program.run_forked(first, directory)
    later = {name: [*arguments, f'--model_dir={name}'] for name, arguments in repeated.items()}
    later['resumed later'] = ['--gin_file=line.gin', '--max_steps=20', '--seed=1', '--model_dir=resumed']
    later['operative'] = ['--gin_file=digits/operative_config.gin', '--mode=plan', '--model_dir=none']
    results |= program.run_forked(later, directory)
    last = ['--gin_file=resumed/config.gin', '--model_dir=resumed of config.gin']
    results |= program.run_forked({'resumed of config.gin': last}, directory)
    return directory, results


@pytest.fixture(scope='module')
def found(runs):
    """Name -> variable -> array of the last checkpoint, and 'events': those of digits."""
    directory, results = runs
    names = [*RUNS, *(f'{name} of config.gin' for name in RUNS), 'random again', 'random, another seed']
    for name in names:
        results[name].check()
    questions = {name: ('variables', name) for name in names}
    return plain.read(questions | {'events': ('events', 'digits')}, directory)


def bits(variables):
    return {name: (array.dtype.name, array.shape, array.tobytes()) for name, array in variables.items()}


@pytest.mark.parametrize('name', RUNS)
def test_config_gin_repeats_the_run(runs, found, name):
    directory, _ = runs
    assert len(found[name]) > 2
    assert bits(found[name]) == bits(found[f'{name} of config.gin'])
    summaries = [program.summary(directory / one) for one in (name, f'{name} of config.gin')]
    assert summaries[0]['final_step'] > 1
    for key in ('first_step', 'final_step', 'stopped_because', 'examples'):
        assert summaries[0][key] == summaries[1][key]
    metrics = [[evaluation['metrics'] for evaluation in summary['evaluations']] for summary in summaries]
    assert metrics[0] == metrics[1] != []


def test_what_config_gin_repeats_is_what_was_asked_for(runs, found):
    directory, _ = runs
    assert found['included']['global_step'] == 11
    assert program.summary(directory / 'included')['examples'] == 66
    assert program.summary(directory / 'scoped')['examples'] == 60
    assert found['keras']['dense/kernel'].shape == (2, 5)
    assert found['penguins']['hidden_1/kernel'].shape == (8, 4)


def test_a_seed_repeats_all_that_is_drawn(found):
    assert bits(found['random']) == bits(found['random again'])


@pytest.mark.parametrize('variable', ['python', 'numpy', 'keras', 'layers/kernel', 'drawn'])
def test_another_seed_draws_otherwise(found, variable):
    assert bits(found['random'])[variable] != bits(found['random, another seed'])[variable]


def test_config_gin_of_a_resumed_run_is_that_of_the_last(runs):
    directory, results = runs
    results['resumed later'].check()
    assert program.summary(directory / 'resumed')['restored_from'] == 'resumed/model.ckpt-10'
    text = (directory / 'resumed' / 'config.gin').read_text()
    assert 'experiment.max_steps = 20' in text
    assert 'experiment.max_steps = 10' not in text
    results['resumed of config.gin'].check()
    assert program.summary(directory / 'resumed of config.gin')['final_step'] == 20


def test_the_operative_config_is_one_that_can_be_read(runs):
    directory, results = runs
    results['operative'].check()
    text = (directory / 'digits' / 'operative_config.gin').read_text()
    for want in ('conv_model_fn.learning_rate = 0.001', 'RunConfig.tf_random_seed = 5', 'max_steps = 40'):
        assert want in text


def test_the_operative_config_is_in_the_event_file(found):
    ((tag, ((step, text),)),) = [item for item in found['events'].items() if 'gin' in item[0]]
    assert (tag, step) == ('gin/operative_config', 0)
    assert 'conv_model_fn.learning_rate = 0.001' in str(text)


def test_the_operative_config_is_written_after_the_first_step(runs):
    directory, results = runs
    assert 'no such row' in results['stopped before the first step'].check(1).err
    model_dir = directory / 'stopped before the first step'
    assert (model_dir / 'config.gin').exists()
    assert not (model_dir / 'operative_config.gin').exists()
