"""Every command in README.md and docs/ runs as it stands there, in the order of the text, in a clean directory."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests import program

ROOT = pathlib.Path(__file__).parents[1]
# Their first half is what .ci/run does in fresh environments before it starts the tests; the second of the first is
# also the first command of the tour.
SET_UP = (
    'pip install . && python -m estimator_trainer --gin_file=penguins.gin --model_dir=runs/penguins',
    "pip install '.[test]' && pytest tests",
)


def blocks(text):
    """Yields (file name or None, language, content) for the fenced code blocks of a Markdown text."""
    for match in re.finditer(r'(?:<!-- file: (\S+) -->\n)?```(\w*)\n(.*?)\n```', text, re.DOTALL):
        yield match.groups()


def commands(script):
    return [command.strip() for command in script.replace('\\\n', ' ').splitlines() if command.strip()]


DOCS = sorted((ROOT / 'docs').glob('*.md'))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    'path',
    [
        pytest.param(ROOT / 'README.md', marks=pytest.mark.once('newest')),
        *(pytest.param(path, marks=pytest.mark.once('oldest')) for path in DOCS),
    ],
    ids=lambda path: path.name,
)
def test_commands(path, tmp_path):
    variables = program.environment(PATH=f'{pathlib.Path(sys.executable).parent}:{os.environ["PATH"]}')
    ran = 0
    for name, language, content in blocks(path.read_text()):
        if name:
            (tmp_path / name).write_text(content + '\n')
            continue
        assert language == 'bash', f'a block that is neither a file nor commands: {content}'
        for command in commands(content):
            if command in SET_UP:
                continue
            result = subprocess.run(
                ['bash', '-c', command], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=180
            )
            assert result.returncode == 0, f'{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}'
            assert 'estimator_trainer: WARNING' not in result.stderr, result.stderr
            ran += 1
    if path.name == 'README.md':
        assert ran >= 13
        predicted = (tmp_path / 'runs' / 'penguins.jsonl').read_text().splitlines()
        assert len(predicted) == 69
        assert program.summary(tmp_path / 'runs' / 'mine')['final_step'] == 300
        assert program.summary(tmp_path / 'runs' / 'penguins')['mode'] == 'export'
        assert program.summary(tmp_path / 'runs' / 'cluster')['status'] == 'done'


@pytest.mark.parametrize('path', [ROOT / 'README.md', *DOCS], ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r'\]\((?!https?:)([^)#]+)', path.read_text()):
        assert (path.parent / target).exists(), target
