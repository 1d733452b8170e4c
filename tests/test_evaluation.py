"""Evaluations of whole runs: the same numbers under every strategy, what `loss` is, and what is warned of."""

import json
import shutil

import pytest

from estimator_trainer.compat import tf
from tests import program
from tests.conftest import MY_GIN, MY_MODEL
from tests.program import bind

MY = ['--gin_file=my.gin', '--import_module=models_module', '--import_module=evaluation_module', '--seed=1']
REPLICAS = bind("RunConfig.eval_distribute = 'mirrored'")
NO_MODEL_FN = [*MY, *bind('experiment.model_fn = None')]
MODELS = {
    'plain': MY,
    'canned': [*NO_MODEL_FN, *bind('experiment.estimator = @linear')],
    'keras': [*NO_MODEL_FN, *bind('experiment.keras_model = @weighted_keras_model')],
}
# Each kind of model, each strategy for training.
TRAINED = [
    ('plain', 'none'),
    ('plain', 'one_device'),
    ('plain', 'mirrored'),
    ('canned', 'central_storage'),
    ('keras', 'none'),
    ('keras', 'mirrored'),
]
SQUARES = [
    *(*MY, '--max_steps=2', *bind('experiment.model_fn = @squares_model_fn')),
    *bind('experiment.train_input_fn = @squares_input_fn', 'experiment.eval_input_fn = @squares_input_fn'),
]
FEW = ['--max_steps=4']


def model(name):
    return [*MY, *bind(f'experiment.model_fn = @{name}_model_fn'), *FEW]


CASES = {
    'squares': SQUARES,
    'squares on replicas': [*SQUARES, *REPLICAS, *bind('experiment.exporters = [@BestExporter()]')],
    'batches': [*model('batches'), *REPLICAS],
    'total': [*model('total'), *REPLICAS, '--strategy=mirrored'],
    'regularized': [*model('regularized'), *REPLICAS, '--strategy=mirrored'],
    'twice': [*model('twice'), '--max_steps=100'],
    'odd': ['--gin_file=penguins.gin', *FEW, *REPLICAS, *bind('mirrored.cpu_replicas = 3')],
    'odd in training': ['--gin_file=penguins.gin', *FEW, '--strategy=mirrored', *bind('mirrored.cpu_replicas = 3')],
    'even': ['--gin_file=penguins.gin', *FEW, *REPLICAS],
}


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp('evaluation')
    for name in ('models_module.py', 'evaluation_module.py'):
        shutil.copy(program.TESTS / name, directory)
    (directory / 'my_model.py').write_text(MY_MODEL)
    # Nine batches, the last of them odd.
    (directory / 'my.gin').write_text(MY_GIN + 'eval/my_input_fn.batch_size = 7\n')
    return directory


@pytest.fixture(scope='module')
def runs(directory):
    """(directory, name -> Result)."""
    cases = {name: [*arguments, f'--model_dir={name}'] for name, arguments in CASES.items()}
    return directory, program.run_forked(cases, directory)


@pytest.fixture(scope='module')
def trained(directory):
    """(directory, name -> Result) of trainings whose evaluation has replicas, and of the same evaluation without."""
    names = {f'{name}, {strategy}': (name, strategy) for name, strategy in TRAINED}
    results = program.run_forked(
        {
            at: [*MODELS[name], f'--strategy={strategy}', *FEW, *REPLICAS, f'--model_dir={at}']
            for at, (name, strategy) in names.items()
        },
        directory,
    )
    for at in names:
        shutil.copytree(directory / at, directory / f'{at}, again')
    again = {f'{at}, again': [*MODELS[name], '--mode=evaluate'] for at, (name, _) in names.items()}
    again = {at: [*arguments, f'--model_dir={at}'] for at, arguments in again.items()}
    return directory, results | program.run_forked(again, directory)


def evaluation(runs, name):
    directory, results = runs
    results[name].check()
    return program.summary(directory / name)['evaluations'][-1]


def warnings(runs, name):
    directory, results = runs
    results[name].check()
    return program.summary(directory / name)['warnings']


@pytest.mark.once('oldest')
@pytest.mark.parametrize(('name', 'strategy'), TRAINED)
def test_replicas_find_what_one_device_finds(trained, name, strategy):
    at = f'{name}, {strategy}'
    replicas, one = evaluation(trained, at), evaluation(trained, f'{at}, again')
    assert replicas['examples'] == one['examples'] == 60
    assert replicas['metrics'] == pytest.approx(one['metrics'], rel=1e-5)
    why = {'canned': "metric 'accuracy_baseline' does not sum up", 'keras': 'Keras divides the loss'}.get(name)
    if why:
        (warning,) = warnings(trained, at)
        assert warning.startswith(f'RunConfig.eval_distribute: evaluates on one replica, not on 2: {why}')
    else:
        assert warnings(trained, at) == []
        assert 'eval batch 14 examples a step: 2 replicas x 7' in trained[1][at].out
    assert 'eval batch 7 examples a step\n' in trained[1][f'{at}, again'].out


@pytest.mark.once('newest')
@pytest.mark.parametrize('name', ['squares', 'squares on replicas'])
def test_the_loss_is_the_mean_over_examples(runs, name):
    found = evaluation(runs, name)
    losses = [number**2 for number in range(13)]
    means = [sum(losses[i : i + 4]) / len(losses[i : i + 4]) for i in range(0, 13, 4)]
    want = {'loss': sum(losses) / 13, 'loss/batch_mean': sum(means) / 4}
    assert (found['metrics'], found['examples']) == (pytest.approx(want), 13)
    (events,) = (runs[0] / name / 'eval').glob('events.out.tfevents.*')
    values = [value for event in tf.compat.v1.train.summary_iterator(str(events)) for value in event.summary.value]
    assert {value.tag: value.simple_value for value in values if value.tag in want} == pytest.approx(want)
    if name == 'squares on replicas':
        best = json.loads((runs[0] / name / 'export' / 'best.json').read_text())
        assert best['loss'] == pytest.approx(want['loss'])


@pytest.mark.once('newest')
def test_a_model_that_an_empty_batch_changes_is_evaluated_on_one_replica(runs):
    (warning,) = warnings(runs, 'batches')
    assert warning.startswith(
        'RunConfig.eval_distribute: evaluates on one replica, not on 2: a batch without examples changes metric '
        "'five' from "
    )
    assert 'eval batch 7 examples a step\n' in runs[1]['batches'].out
    found = evaluation(runs, 'batches')
    assert (found['metrics']['five'], found['examples']) == (5, 60)


@pytest.mark.once('newest')
def test_losses_of_other_replicas(runs):
    evaluated, trained = warnings(runs, 'total')
    want = 'the loss of a replica sums 2 entries of the loss collections, losses of other replicas among them'
    assert evaluated.startswith(f'RunConfig.eval_distribute: evaluates on one replica, not on 2: {want}')
    assert trained.startswith(want)
    assert trained.endswith('sum the losses of model_fn explicitly')
    assert warnings(runs, 'regularized') == []


@pytest.mark.once('newest')
def test_steps_that_are_counted_twice(runs):
    assert warnings(runs, 'twice') == ['global_step grows by 2 per train_op run: 50 updates for max_steps=100']


@pytest.mark.once('newest')
@pytest.mark.parametrize(('name', 'want_scope'), [('odd', 'eval'), ('odd in training', 'train')])
def test_a_batch_that_cannot_be_divided_is_refused(runs, name, want_scope):
    directory, results = runs
    err = results[name].check(2).err
    assert f'{want_scope}/csv_input_fn.batch_size: 32; expected a multiple of the 3 replicas' in err
    assert not (directory / name).exists()


@pytest.mark.once('newest')
def test_input_fns_that_ship_take_the_global_batch(runs):
    assert 'eval batch 32 examples a step: 2 replicas x 16' in runs[1]['even'].check().out
    assert evaluation(runs, 'even')['examples'] == 69
