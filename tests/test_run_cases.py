"""Cases of training and evaluation in one process, and of logging (issue 3), through the whole program."""

import re

import pytest

from estimator_trainer.compat import tf
from tests import program
from tests.conftest import MY_GIN, MY_MODEL
from tests.program import bind

pytestmark = pytest.mark.once('oldest')

FILES = {
    'my_model.py': MY_MODEL,
    'my.gin': MY_GIN,
    'case_module.py': (program.TESTS / 'case_module.py').read_text(),
    'walk.gin': 'import case_module\n'
    'experiment.model_fn = @walk_model_fn\n'
    'experiment.train_input_fn = @train/count_input_fn\n'
    'experiment.eval_input_fn = @eval/count_input_fn\n'
    'eval/count_input_fn.examples = 2\n',
    'empty.csv': '',
}
MY = ['--gin_file=my.gin', '--import_module=case_module']
WALK = ['--gin_file=walk.gin']
FINAL = bind('experiment.exporters = [@FinalExporter()]')


def every(steps):
    return bind(f'RunConfig.save_checkpoints_steps = {steps}')


def returning(what, name):
    return bind(f'experiment.{name} = @returning_input_fn', f'returning_input_fn.what = {what!r}')


# B23: name -> (arguments, steps of the evaluations, the rule, what is said of those left out)
EVALUATIONS = {
    'every checkpoint': (every(10), [10, 20, 30, 40, 50], 'at every checkpoint (each 10 steps), and at the end', None),
    'odd end': (every(20), [20, 40, 50], 'at every checkpoint (each 20 steps), and at the end', None),
    'throttled': (
        [*every(10), *bind('trainer.throttle_secs = 600')], [50],
        'at every checkpoint (each 10 steps), at most once per 600 s, and at the end',
        '4 of 5 evaluations (trainer.throttle_secs)',
    ),
}  # fmt: skip

# B24, in the model_dir of 'every checkpoint': name -> (arguments, steps of the evaluations)
AGAIN = {
    'the same max_steps': (['--max_steps=50'], [50]),
    'a lower max_steps': (['--max_steps=20'], [50]),
    'no evaluation': (['--max_steps=50', '--mode=train'], []),
}

# B25: name -> arguments
ENDLESS = {
    'endless': returning('endless', 'eval_input_fn'),
    'endless, mixed': returning('endless, mixed', 'eval_input_fn'),
    'tensors': returning('tensors', 'eval_input_fn'),
    'arrays': returning('arrays', 'eval_input_fn'),
    'evaluation alone': [*returning('tensors', 'eval_input_fn'), '--mode=evaluate', '--model_dir=ended by take'],
}
# name -> (arguments, number of examples evaluated)
ENDING = {
    'ended by zip': (returning('ended by zip', 'eval_input_fn'), 24),
    'ended by take': (returning('ended by take', 'eval_input_fn'), 24),
    'ended by eval_steps': ([*returning('tensors', 'eval_input_fn'), *bind('experiment.eval_steps = 3')], 12),
}

TWENTY = bind('train/count_input_fn.examples = 20')
# B26: name -> (arguments, first step, last step, examples)
SHORT = {
    'one epoch': ([*WALK, *TWENTY], 0, 20, 20),
    'no evaluation': ([*WALK, *TWENTY, '--mode=train'], 0, 20, 20),
    'resumed': ([*WALK, *TWENTY], 5, 25, 20),
    # Each of two replicas takes a batch: 8 batches of 60 examples make 4 steps.
    'replicas': ([*MY, '--strategy=mirrored', *bind('my_input_fn.repeat = False')], 0, 4, 60),
}

# B32
DIRECTORIES = ['a b,ünï{c,d}', 'lr=0.1 \'x\' "y" %d #1 (a):$b;']
REFUSED_DIRECTORIES = ['run[1]', 'run]', 'run*', 'run?', 'run\\1']

# B38, B39: what the input_fn returns -> what the one line of the message must hold
EMPTY = dict.fromkeys(['no records', 'no rows', 'all filtered', 'remainder', 'all skipped'], 'produced no batches')
EMPTY |= {'no files': 'nowhere/*.tfr'}
EMPTY_INPUTS = [('train', what) for what in EMPTY] + [('eval', what) for what in ('no rows', 'remainder', 'no files')]
EMPTY_FILES = {
    'pattern': (bind("train/csv_input_fn.files = 'nowhere/*.csv'"), 'nowhere/*.csv'),
    'evaluation pattern': (bind("eval/csv_input_fn.files = 'nowhere/*.csv'"), 'nowhere/*.csv'),
    'empty file': (bind("train/csv_input_fn.files = 'empty.csv'"), 'empty.csv: the file is empty; expected a row'),
}
# What shows when training has begun: name -> (arguments, what the message must hold)
LATER_EMPTY = {
    'training': (bind('experiment.train_input_fn = @later_empty_input_fn'), 'train_input_fn produced no batches'),
    'evaluation': (bind('experiment.eval_input_fn = @later_empty_input_fn'), 'eval_input_fn produced no batches'),
    'batches': (returning('empty batches', 'eval_input_fn'), 'experiment.eval_input_fn produced no examples'),
}

# B40, B41: hook -> (statements, the step at which it stops); the weight is the step, the loss its distance from 3.
STOPS = {
    'stop_if_higher_hook': (["metric_name = 'w'", 'threshold = 12'], 15),
    'stop_if_lower_hook': (["metric_name = 'loss'", 'threshold = 3.5'], 5),
    'stop_if_no_decrease_hook': (["metric_name = 'flat'", 'max_steps_without_decrease = 10'], 15),
    'stop_if_no_increase_hook': (["metric_name = 'flat'", 'max_steps_without_increase = 10'], 15),
}
# name -> (statements, what the one line of the message must hold)
WATCHING_NOTHING = {
    'misspelt': (["metric_name = 'flatt'"], ["no metric 'flatt'", "did you mean 'flat'?"]),
    'of another model': (["metric_name = 'accuracy'"], ["no metric 'accuracy'"]),
}

# B122: how a user's module sets up logging
LOGGING = {
    'not': '',
    'basicConfig': 'logging.basicConfig(level=logging.INFO)',
    'basicConfig by force': 'logging.basicConfig(level=logging.INFO, force=True)',
    'verbosity of absl': 'absl.logging.set_verbosity(absl.logging.INFO)',
    'verbosity of TensorFlow': 'tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)',
    'dictConfig': "logging.config.dictConfig({'version': 1, 'disable_existing_loggers': False, 'handlers': {'h': {"
    "'class': 'logging.StreamHandler'}}, 'root': {'level': 'INFO', 'handlers': ['h']}})",
}


def _cases():
    for name, (arguments, *_) in EVALUATIONS.items():
        yield f'evaluations {name}', [*WALK, '--max_steps=50', *arguments]
    for name, (arguments, *_) in ENDING.items():
        yield name, [*MY, '--max_steps=1', *arguments]
    yield 'before', [*WALK, '--max_steps=5', '--model_dir=short resumed']
    for name, (arguments, *_) in SHORT.items():
        yield f'short {name}', ['--max_steps=1000', *arguments]
    for path in DIRECTORIES:
        yield f'before {path}', [*WALK, '--max_steps=2', f'--model_dir={path}']
        yield path, [*WALK, '--max_steps=4']
    for path in REFUSED_DIRECTORIES:
        yield path, WALK
    for which, name in EMPTY_INPUTS:
        yield f'{which} {name}', [*MY, *returning(name, f'{which}_input_fn')]
    for name, (arguments, _) in EMPTY_FILES.items():
        yield f'file {name}', ['--gin_file=penguins.gin', *arguments]
    for name, (arguments, _) in LATER_EMPTY.items():
        yield f'later {name}', [*MY, '--max_steps=3', *FINAL, *bind('experiment.model_fn = @walk_model_fn'), *arguments]
    yield 'input', [*WALK, '--max_steps=30']
    yield 'saved input', [*WALK, '--max_steps=30', *bind('experiment.hooks = [@CheckpointInputPipelineHook]')]
    for hook, (statements, _) in STOPS.items():
        bound = bind(f'experiment.hooks = [@{hook}]', *(f'{hook}.{statement}' for statement in statements))
        yield f'stop {hook}', [*WALK, '--max_steps=40', *every(5), *bound]
    for name, (statements, _) in WATCHING_NOTHING.items():
        bound = bind('experiment.hooks = [@stop_if_higher_hook]', 'stop_if_higher_hook.threshold = 0')
        bound += bind(*(f'stop_if_higher_hook.{statement}' for statement in statements))
        yield f'watch {name}', [*WALK, '--max_steps=10', *bound]
    for number, name in enumerate(LOGGING):
        yield f'log {name}', [*WALK, f'--import_module=logging_{number}', '--max_steps=1', '--verbosity=0']
    # In the model_dir of a case above.
    for name, (arguments, _) in AGAIN.items():
        yield f'again {name}', [*WALK, *arguments, '--model_dir=evaluations every checkpoint']
    for name, arguments in ENDLESS.items():
        yield f'endless {name}', [*MY, '--max_steps=1', *arguments]
    see = '--max_steps=40', *bind('experiment.hooks = [@SeenHook()]')
    yield 'input again', [*WALK, *see, '--model_dir=input']
    see = '--max_steps=40', *bind('experiment.hooks = [@SeenHook(), @CheckpointInputPipelineHook]')
    yield 'saved input again', [*WALK, *see, '--model_dir=saved input']
    yield (
        'resumed without input',
        [*WALK, '--max_steps=60', *returning('no rows', 'train_input_fn'), '--model_dir=input'],
    )


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result)."""
    directory = tmp_path_factory.mktemp('run_cases')
    modules = {
        f'logging_{number}.py': 'import absl.logging\nimport logging.config\nimport tensorflow as tf\n'
        f"{text}\ntf.compat.v1.logging.info('from the user')\n"
        for number, text in enumerate(LOGGING.values())
    }
    for name, text in {**FILES, **modules}.items():
        (directory / name).write_text(text)
    # A --model_dir of the case itself comes later, and wins.
    return directory, program.run_forked({name: [f'--model_dir={name}', *case] for name, case in _cases()}, directory)


def refused(runs, name, *want_texts):
    """Fails the test unless a case has ended with one line that holds the texts, before anything was written."""
    directory, results = runs
    err = results[name].check(2).err
    errors = [line for line in err.splitlines() if 'WARNING: ' not in line]
    assert len(errors) == 1, err
    for want_text in want_texts:
        assert want_text in errors[0]
    assert not (directory / name).exists()


def evaluations(out):
    """Returns (step, metrics) of the evaluations that a run has told of."""
    return [
        (int(step), metrics)
        for step, metrics in re.findall(r"^evaluation 'eval' at step (\d+): (.*)$", out, re.MULTILINE)
    ]


@pytest.mark.parametrize('name', EVALUATIONS)
def test_when_evaluations_take_place(runs, name):  # B23
    _, want_steps, want_rule, want_skipped = EVALUATIONS[name]
    out = runs[1][f'evaluations {name}'].check().out
    assert [step for step, _ in evaluations(out)] == want_steps
    assert f'  evaluation {want_rule}\n' in out
    assert f'  skipped    {want_skipped}\n' in out if want_skipped else '  skipped ' not in out


@pytest.mark.parametrize('name', AGAIN)
def test_nothing_to_train(runs, name):  # B24
    arguments, want_steps = AGAIN[name]
    result = runs[1][f'again {name}'].check()
    max_steps = arguments[0].partition('=')[2]
    assert f'is at step 50, max_steps is {max_steps}: nothing to train' in result.err
    assert 'done (nothing_to_do)' in result.out.splitlines()
    assert evaluations(result.out) == [
        (step, 'flat 5, loss 47, loss/batch_mean 47, w 50 (2 examples)') for step in want_steps
    ]


@pytest.mark.parametrize('name', ENDLESS)
def test_an_evaluation_that_would_never_end(runs, name):  # B25
    refused(runs, f'endless {name}', 'eval_input_fn repeats for ever', 'eval_steps is None')


@pytest.mark.parametrize('name', ENDING)
def test_an_evaluation_that_ends(runs, name):  # B25
    runs[1][name].check()
    (evaluation,) = program.summary(runs[0] / name)['evaluations']
    assert evaluation['examples'] == ENDING[name][1]


@pytest.mark.parametrize('name', SHORT)
def test_the_input_ends_before_max_steps(runs, name):  # B26
    directory, results = runs
    _, want_first, want_last, want_examples = SHORT[name]
    assert f'the input ended at step {want_last}, before max_steps=1000' in results[f'short {name}'].check().err
    summary = program.summary(directory / f'short {name}')
    assert (summary['status'], summary['stopped_because']) == ('done', 'end_of_input')
    assert (summary['first_step'], summary['final_step'], summary['examples']) == (want_first, want_last, want_examples)


@pytest.mark.parametrize('path', DIRECTORIES)
def test_names_of_directories(runs, path):  # B32
    directory, results = runs
    for name, want_step in ((f'before {path}', 2), (path, 4)):
        assert [step for step, _ in evaluations(results[name].check().out)] == [want_step]
        assert (directory / f'{path}/model.ckpt-{want_step}.index').exists()
    summary = program.summary(directory / path)
    assert (summary['restored_from'], summary['checkpoint']) == (f'{path}/model.ckpt-2', f'{path}/model.ckpt-4')


@pytest.mark.parametrize('path', REFUSED_DIRECTORIES)
def test_names_of_directories_that_tensorflow_misreads(runs, path):  # B32
    refused(runs, path, 'RunConfig.model_dir', repr(path), 'which TensorFlow takes for patterns')


def test_the_input_starts_again(runs):  # B34
    out = runs[1]['input again'].check().out
    assert '  input      starts again from its beginning\n' in out
    assert 'seen 0 9' in out.splitlines()


@pytest.mark.skipif(
    not hasattr(tf.data.experimental, 'CheckpointInputPipelineHook'), reason='this TensorFlow has no such hook'
)
def test_the_input_goes_on_where_its_state_is_saved(runs):  # B34
    runs[1]['saved input'].check()
    out = runs[1]['saved input again'].check().out
    assert '  input      goes on where it had stopped\n' in out
    assert 'seen 30 39' in out.splitlines()


@pytest.mark.parametrize(('which', 'what'), EMPTY_INPUTS)
def test_an_empty_input(runs, which, what):  # B38, B39
    refused(runs, f'{which} {what}', f'experiment.{which}_input_fn', EMPTY[what])


@pytest.mark.parametrize('name', EMPTY_FILES)
def test_files_without_a_record(runs, name):  # B38, B39
    refused(runs, f'file {name}', EMPTY_FILES[name][1])


@pytest.mark.parametrize('name', LATER_EMPTY)
def test_an_input_that_turns_out_to_be_empty(runs, name):  # B38, B39
    directory, results = runs
    model_dir = directory / f'later {name}'
    assert LATER_EMPTY[name][1] in results[f'later {name}'].check(1).err
    summary = program.summary(model_dir)
    assert summary['status'] == 'failed'
    assert summary['exports'] == summary['evaluations'] == []
    assert not (model_dir / 'export').exists()
    assert not list(model_dir.glob('eval/events*'))
    if name == 'training':
        assert summary['checkpoint'] is None
        assert not list(model_dir.glob('*ckpt*'))


def test_an_empty_input_leaves_the_checkpoints_that_were_there(runs):  # B38
    directory, results = runs
    assert 'produced no batches' in results['resumed without input'].check(2).err
    assert (directory / 'input/model.ckpt-40.index').exists()


@pytest.mark.parametrize('hook', STOPS)
def test_early_stopping_looks_at_each_evaluation(runs, hook):  # B40, B41
    result, want_step = runs[1][f'stop {hook}'].check(), STOPS[hook][1]
    assert result.err == ''
    assert [step for step, _ in evaluations(result.out)] == list(range(5, want_step + 1, 5))
    summary = program.summary(runs[0] / f'stop {hook}')
    assert (summary['stopped_because'], summary['final_step']) == ('early_stopping', want_step)


@pytest.mark.parametrize('name', WATCHING_NOTHING)
def test_early_stopping_by_a_metric_that_nobody_reports(runs, name):  # B40
    refused(runs, f'watch {name}', 'stop_if_higher_hook.metric_name', *WATCHING_NOTHING[name][1])


@pytest.mark.parametrize('name', LOGGING)
def test_no_line_appears_twice(runs, name):  # B122
    err = runs[1][f'log {name}'].check().err
    for line in ('Loss for final step', 'Saving checkpoints for 1 into', 'from the user'):
        assert err.count(line) == 1, err
