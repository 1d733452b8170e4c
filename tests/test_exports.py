"""When exporters are called: after evaluations, and with the last word at every successful end."""

import pathlib
import shutil

import pytest

from estimator_trainer import exporters
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError
from estimator_trainer.exports import Exports
from tests import program
from tests.line_module import LINE_GIN
from tests.program import bind

pytestmark = pytest.mark.once('oldest')


class Recorder(tf.estimator.Exporter):
    """Exports to the paths that it was given, one a call."""

    name = None

    def __init__(self, name, *paths):
        self.name = name
        self.paths = list(paths)
        self.calls = []

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self.calls.append((export_path, checkpoint_path, eval_result, is_the_final_export))
        return self.paths.pop(0)


class RecordingFinal(Recorder, exporters.FinalExporter):
    """One of those that export at the end."""


@pytest.fixture
def exports():
    """Returns a function that makes Exports of exporters; `told` are its exports."""

    def make(*made):
        return Exports(made, 'M', lambda *export: make.told.append(export))

    make.told = []
    return make


def evaluated(exports, step, final=False):
    exports.after_evaluation(None, f'M/model.ckpt-{step}', step, {'loss': 1.0}, final)


def test_each_exporter_is_called_and_what_it_wrote_is_told(exports):
    one, two = Recorder('one', 'a', None), Recorder('two', None, b'b')
    made = exports(one, two)
    evaluated(made, 10)
    evaluated(made, 20, final=True)
    assert one.calls == [
        ('M/export/one', 'M/model.ckpt-10', {'loss': 1.0}, False),
        ('M/export/one', 'M/model.ckpt-20', {'loss': 1.0}, True),
    ]
    assert [path for path, *_ in two.calls] == ['M/export/two'] * 2
    assert exports.told == [('one', 10, 'a'), ('two', 20, 'b')]


def test_a_checkpoint_that_turns_out_to_be_the_last_is_not_exported_twice(exports):
    latest, final = Recorder('latest', 'a'), RecordingFinal('final', None, 'b')
    made = exports(latest, final)
    evaluated(made, 10)
    evaluated(made, 10, final=True)
    assert [final for *_, final in latest.calls] == [False]
    assert [final for *_, final in final.calls] == [False, True]
    assert exports.told == [('latest', 10, 'a'), ('final', 10, 'b')]


def test_without_evaluation_only_the_final_ones_export(exports):
    receiver_fn = lambda: None  # noqa: E731
    stock = tf.estimator.FinalExporter('stock', receiver_fn)
    made = exports(Recorder('latest'), RecordingFinal('final', 'a'), stock)
    assert [exporter.name for exporter in made.final_exporters] == ['final', 'stock']
    made = exports(Recorder('latest'), RecordingFinal('final', 'a'))
    made.final(None, 'M/model.ckpt-3', 3)
    assert exports.told == [('final', 3, 'a')]


@pytest.mark.parametrize('evaluates', [True, False])
def test_no_final_export_is_an_error(exports, evaluates):
    made = exports(RecordingFinal('last', None))
    with pytest.raises(TrainerError, match=r"^final export not produced by RecordingFinal 'last'$") as caught:
        evaluated(made, 3, final=True) if evaluates else made.final(None, 'M/model.ckpt-3', 3)
    assert caught.value.exit_code == 1


def test_other_exporters_need_not_export_at_the_end(exports):
    evaluated(exports(Recorder('best', None)), 3, final=True)
    assert exports.told == []


def test_the_receiver_goes_to_those_that_have_none(exports):
    own, given = (lambda: 'own'), (lambda: 'given')
    made = exporters.BestExporter(), exporters.LatestExporter(serving_input_receiver_fn=own), Recorder('users')
    exports(*made).give_receiver(given)
    assert [exporter.serving_input_receiver_fn for exporter in made[:2]] == [given, own]
    assert not hasattr(made[2], 'serving_input_receiver_fn')


@pytest.mark.parametrize(
    ('made', 'want'),
    [
        ([exporters.BestExporter(), exporters.LatestExporter()], ['export']),
        ([exporters.LatestExporter(serving_input_receiver_fn=len)], ['from len']),
        ([exporters.LatestExporter(serving_input_receiver_fn=len), exporters.BestExporter()], ['from len', 'export']),
        ([Recorder('users')], []),
    ],
)
def test_the_graph_of_each_export_is_built(exports, made, want):
    built = []

    class Rehearsal:
        def export(self):
            built.append('export')

        def export_from(self, receiver_fn):
            built.append(f'from {receiver_fn.__name__}')

        def receiver_fn(self):
            return abs

    exports(*made).rehearse(Rehearsal())
    assert built == want
    assert None not in [getattr(exporter, 'serving_input_receiver_fn', None) for exporter in made if want]


EXPORTERS_MODULE = """
import gin
import line_module
import tensorflow as tf
from estimator_trainer import exporters


@gin.configurable
class Silent(exporters.FinalExporter):
    def export(self, *arguments):
        return None


@gin.configurable
def stock():
    return tf.estimator.FinalExporter('stock', line_module.line_receiver_fn)


@gin.configurable
class Unlucky(tf.estimator.Exporter):
    name = 'unlucky'

    def export(self, *arguments):
        raise OSError('no such disk')
"""

ALL = 'experiment.exporters = [@LatestExporter(), @BestExporter(), @FinalExporter()]'
USER = '--import_module=exporters_module'
ONCE = ('train/numbers_input_fn.repeat = False', 'train/numbers_input_fn.examples = 40')


def of(*made):
    return f'experiment.exporters = [{", ".join(f"@{one}()" for one in made)}]'


RUNS = {
    'max_steps': bind(ALL),
    'end of input': bind(ALL, *ONCE, 'experiment.max_steps = None'),
    'end of input before max_steps': ['--max_steps=1000', *bind(ALL, *ONCE)],
    'a hook stops': [
        '--import_module=user_module',
        *bind(ALL, 'experiment.hooks = [@StopAt()]', 'StopAt.runs = 13'),
    ],
    'early stopping': bind(
        *(ALL, 'experiment.hooks = [@stop_if_lower_hook]'),
        *("stop_if_lower_hook.metric_name = 'loss'", 'stop_if_lower_hook.threshold = 1e9'),
    ),
    'mirrored': ['--strategy=mirrored', '--max_steps=10', *bind(ALL)],
    'train': ['--mode=train', *bind(ALL)],
    'stock': [USER, '--max_steps=10', *bind(of('stock'))],
    'two of a kind': [
        '--max_steps=10',
        *bind(of('a/FinalExporter', 'b/FinalExporter'), *(f"{one}/FinalExporter.name = '{one}'" for one in 'ab')),
    ],
    'throttled': bind(ALL, 'trainer.throttle_secs = 600'),
    'signal': bind(
        *(ALL, 'experiment.max_steps = None', 'train/numbers_input_fn.repeat = False'),
        *('train/numbers_input_fn.at = 100', 'train/numbers_input_fn.then = @terminate'),
        'train/numbers_input_fn.examples = 1000000000',
    ),
    'silent': [USER, *bind(of('Silent'))],
    'silent train': [USER, '--mode=train', *bind(of('Silent'))],
    'unlucky': [USER, *bind(of('Unlucky'))],
    'same name': bind(of('FinalExporter', 'FinalExporter')),
    'same name of two': bind(of('FinalExporter', 'BestExporter'), "BestExporter.name = 'final'"),
    'no exporter': bind('experiment.exporters = [3]'),
}
# name -> (model_dir that an earlier run has left, arguments), one after the other.
LATER = {
    'nothing to do': ('max_steps', bind(ALL)),
    'nothing to train': ('train', ['--mode=train', *bind(ALL)]),
    'worse': ('end of input', ['--max_steps=25', *bind(ALL, 'line_model_fn.learning_rate = -0.1')]),
    'better': ('end of input', ['--max_steps=65', *bind(of('BestExporter'))]),
}

# name -> (stopped_because, (exporter, step) of all exports but the best, in their order)
WANT = {
    'max_steps': ('max_steps', [('latest', 10), ('latest', 20), ('latest', 30), ('final', 30)]),
    'end of input': ('end_of_input', [('latest', 5), ('final', 5)]),
    'end of input before max_steps': ('end_of_input', [('latest', 5), ('final', 5)]),
    'a hook stops': ('early_stopping', [('latest', 10), ('latest', 13), ('final', 13)]),
    'early stopping': ('early_stopping', [('latest', 10), ('final', 10)]),
    'mirrored': ('max_steps', [('latest', 10), ('final', 10)]),
    'train': ('max_steps', [('final', 30)]),
    'stock': ('max_steps', [('stock', 10)]),
    'two of a kind': ('max_steps', [('a', 10), ('b', 10)]),
    'throttled': ('max_steps', [('latest', 30), ('final', 30)]),
    'nothing to do': ('nothing_to_do', [('latest', 30), ('final', 30)]),
    'nothing to train': ('nothing_to_do', [('final', 30)]),
    'worse': ('max_steps', [('latest', 15), ('latest', 25), ('final', 25)]),
    'better': ('max_steps', []),
}


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result, name -> summary)."""
    directory = tmp_path_factory.mktemp('exporters')
    for name in ('line_module.py', 'user_module.py'):
        shutil.copy(program.TESTS / name, directory)
    files = {'line.gin': LINE_GIN, 'exporters_module.py': EXPORTERS_MODULE, 'my_model.py': ''}
    for name, text in files.items():
        (directory / name).write_text(text)
    seed = ['--gin_file=line.gin', '--seed=1']
    results, summaries = {}, {}
    for cases in (
        {name: (name, arguments) for name, arguments in RUNS.items()},
        *({name: later} for name, later in LATER.items()),
    ):
        commands = {name: [*seed, f'--model_dir={path}', *more] for name, (path, more) in cases.items()}
        results |= program.run_forked(commands, directory)
        for name, (path, _) in cases.items():
            if (directory / path).exists():
                summaries[name] = program.summary(directory / path)
    return directory, results, summaries


@pytest.mark.parametrize('name', WANT)
def test_every_successful_end_exports(runs, name):
    directory, results, summaries = runs
    results[name].check()
    exports = summaries[name]['exports']
    found = [(export['name'], export['step']) for export in exports if export['name'] != 'best']
    assert (summaries[name]['stopped_because'], found) == WANT[name]
    model_dir = LATER[name][0] if name in LATER else name
    for export in exports:
        assert pathlib.PurePath(export['path']).parent == pathlib.PurePath(model_dir, 'export', export['name'])
        assert (directory / export['path'] / 'saved_model.pb').exists()
        assert f"export '{export['name']}' of step {export['step']}: {export['path']}" in results[name].out
    assert len({export['path'] for export in exports}) == len(exports)


@pytest.mark.parametrize('names', [['max_steps'], ['a hook stops'], ['mirrored'], ['end of input', 'worse', 'better']])
def test_the_best_is_the_best_of_all_runs(runs, names):
    _, results, summaries = runs
    best, want, found = float('inf'), [], []
    for name in names:
        results[name].check()
        for evaluation in summaries[name]['evaluations']:
            if evaluation['metrics']['loss'] < best:
                best = evaluation['metrics']['loss']
                want.append((name, evaluation['step']))
        found += [(name, export['step']) for export in summaries[name]['exports'] if export['name'] == 'best']
    assert found == want
    assert (names[0], names[-1]) == (want[0][0], want[-1][0])
    assert 'worse' not in [name for name, _ in want]


def test_a_signal_makes_no_final_export(runs):
    directory, results, summaries = runs
    results['signal'].check(143)
    assert summaries['signal']['status'] == 'interrupted'
    assert summaries['signal']['final_step'] > 0  # It is the input that sends the signal, and it may be read ahead.
    assert 'final' not in [export['name'] for export in summaries['signal']['exports']]
    assert not (directory / 'signal' / 'export' / 'final').exists()


@pytest.mark.parametrize('name', ['silent', 'silent train'])
def test_an_end_without_final_export_is_a_failure(runs, name):
    _, results, summaries = runs
    assert "estimator_trainer: error: final export not produced by Silent 'final'" in results[name].check(1).err
    assert (summaries[name]['status'], summaries[name]['exports']) == ('failed', [])
    assert 'final export not produced' in summaries[name]['error']


def test_an_exporter_that_fails(runs):
    _, results, summaries = runs
    assert 'OSError: no such disk' in results['unlucky'].check(1).err
    assert (summaries['unlucky']['status'], summaries['unlucky']['error']) == ('failed', 'OSError: no such disk')


@pytest.mark.parametrize(
    ('name', 'want_error'),
    [
        ('same name', 'experiment.exporters: two have the same name; found final, final'),
        ('same name of two', 'experiment.exporters: two have the same name; found final, final'),
        ('no exporter', 'experiment.exporters: expected Exporter objects, e.g. [@FinalExporter()], found 3'),
    ],
)
def test_mistakes(runs, name, want_error):
    directory, results, _ = runs
    assert want_error in results[name].check(2).err
    assert not (directory / name).exists()
