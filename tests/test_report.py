"""The lines a person reads. A whole run's, and the progress bar, are in test_training.py."""

import pytest

from estimator_trainer.report import Report
from estimator_trainer.summary import DONE, FAILED, Summary


@pytest.mark.parametrize(
    ('max_steps', 'where', 'arguments', 'want_line'),
    [
        (
            2000,
            '',
            (1000, 0.123456, 50.0, 400.0),
            'step 1,000/2,000 | loss 0.1235 | 50.0 steps/s | 400 examples/s | ETA 0:00:20',
        ),
        (None, '', (1000, 0.5, 1234.56, 1e6), 'step 1,000 | loss 0.5 | 1,234.6 steps/s | 1,000,000 examples/s'),
        (10, '', (5, float('nan'), 1.0, None), 'step 5/10 | loss nan | 1.0 steps/s | ETA 0:00:05'),
        (
            10,
            ' in this task',
            (5, 1.0, 1.0, 8.0),
            'step 5/10 | loss 1 | 1.0 steps/s | 8 examples/s in this task | ETA ',
        ),
        # Of several asynchronous workers, the last one sees more than max_steps.
        (10, '', (11, 1.0, 1.0, None), 'step 11/10 | loss 1 | 1.0 steps/s | ETA 0:00:00'),
        (10**6, '', (1, 1.0, 1.0, None), 'step 1/1,000,000 | loss 1 | 1.0 steps/s | ETA 11 days, 13:46:39'),
    ],
)
def test_progress(capsys, max_steps, where, arguments, want_line):
    Report(Summary('train'), max_steps, where).progress(*arguments)
    line = capsys.readouterr().out
    assert line.count('\n') == 1
    assert line.startswith(want_line)


@pytest.mark.parametrize(
    ('metrics', 'examples', 'want_line'),
    [
        ({'loss': 0.25, 'accuracy': 0.123456}, 1600, 'accuracy 0.1235, loss 0.25 (1,600 examples)'),
        ({'count': 12345678, 'loss': 1e-9}, None, 'count 12345678, loss 1e-09'),
    ],
)
def test_evaluation(capsys, metrics, examples, want_line):
    evaluation = {'name': 'eval', 'step': 2000, 'metrics': metrics, 'examples': examples}
    Report(Summary('evaluate'), None).evaluation(evaluation)
    assert capsys.readouterr().out == f"evaluation 'eval' at step 2,000: {want_line}\n"


def test_a_warning_is_said_and_kept_once(capsys):
    summary = Summary('train')
    report = Report(summary, None)
    for message in ('no shard', 'other', 'no shard'):
        report.warn(message)
    assert summary.warnings == ['no shard', 'other']
    assert capsys.readouterr().err == 'estimator_trainer: WARNING: no shard\nestimator_trainer: WARNING: other\n'


EVALUATION = {'name': 'eval', 'step': 3, 'metrics': {'loss': 0.5}, 'examples': 60}


@pytest.mark.parametrize(
    ('fields', 'want_lines'),
    [
        (
            {
                **{'status': DONE, 'stopped_because': 'max_steps', 'first_step': 0, 'final_step': 3000},
                **{'seconds': 10.0, 'examples': 24000, 'evaluations': [EVALUATION], 'checkpoint': 'M/model.ckpt-3000'},
            },
            [
                'done (max_steps)',
                '  steps      0 -> 3,000 in 10.0 s, 300.0 steps/s',
                '  examples   24,000',
                "  evaluation 'eval' at step 3: loss 0.5 (60 examples)",
                '  checkpoint M/model.ckpt-3000',
                '  summary    M/run/summary.json',
            ],
        ),
        (
            {
                **{'status': DONE, 'stopped_because': 'nothing_to_do', 'first_step': 5, 'final_step': 5},
                'warnings': ['nothing to train'],
            },
            ['done (nothing_to_do)', '  steps      5 -> 5', '  warnings   1', '  summary    M/run/summary.json'],
        ),
        ({'status': DONE, 'examples': None}, ['done', '  summary    M/run/summary.json']),
        ({'status': FAILED, 'stopped_because': 'error'}, ['failed (error)', '  summary    M/run/summary.json']),
    ],
)
def test_finish(capsys, fields, want_lines):
    Report(Summary('train', **fields), None).finish('M/run/summary.json')
    assert capsys.readouterr().out.splitlines() == want_lines
