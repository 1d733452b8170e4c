"""The configs that ship train by their names from any directory, at least as accurately as scikit-learn."""

import pytest

from tests import program
from tests.model_fns import baselines


@pytest.mark.parametrize(
    ('config', 'strategy', 'want_accuracy', 'want_examples'),
    [
        ('penguins.gin', 'none', baselines.penguins_accuracy, 69),
        ('penguins.gin', 'mirrored', baselines.penguins_accuracy, 69),
        ('digits.gin', 'none', baselines.digits_accuracy, 360),
    ],
)
def test_accuracy(tmp_path, config, strategy, want_accuracy, want_examples):
    arguments = [f'--gin_file={config}', f'--strategy={strategy}', '--model_dir=M']
    program.run(*arguments, cwd=tmp_path, timeout=240).check()
    summary = program.summary(tmp_path / 'M')
    (evaluation,) = summary['evaluations']
    assert summary['stopped_because'] == 'max_steps'
    assert evaluation['examples'] == want_examples
    # A float32 mean of ones and zeros may round below the exact quotient.
    assert evaluation['metrics']['accuracy'] >= want_accuracy() - 1e-6
