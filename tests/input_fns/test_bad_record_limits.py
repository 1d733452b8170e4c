"""`max_bad_records` in all formats: below, at and above the number of bad records; and bad records in all modes."""

import dataclasses
import shutil

import pytest

from tests import program
from tests.input_fns import (
    test_csv_mutations,
    test_image_folder_mutations,
    test_json_lines_mutations,
    test_text_mutations,
    test_tfrecord_mutations,
)
from tests.input_fns.example_records import file_of
from tests.input_fns.mutations import ERROR, LATE, SKIPPED, Case, same

ALLOWS = 'max_bad_records = 1 allows no more'


def two_bad(file, old, other, file_of_other=None):
    """A change that puts 'bad' in the place of two texts, each in a file of its own."""

    def change(folder):
        for path, text in ((folder / file, old), (folder / (file_of_other or file.replace('a', 'b', 1)), other)):
            content = path.read_bytes()
            assert content.count(text) == 1
            path.write_bytes(content.replace(text, b'bad' if text != b'bad' else b'sad'))

    return change


def two_bad_records(folder):
    (folder / 'a.tfrecord').write_bytes(file_of([b'', *test_tfrecord_mutations.FIRST[:4]]))
    (folder / 'b.tfrecord').write_bytes(file_of([test_tfrecord_mutations.SECOND[0], b'\xff']))


def two_bad_images(folder):
    for name in ('cat/1.png', 'dog/3.png'):
        (folder / name).write_bytes(b'')


# format -> (its cases, what makes two bad records, the mistakes)
FORMATS = {
    'csv': (
        test_csv_mutations.TABLE, two_bad('a.csv', b'20', b'30'),
        "@/a.csv:3: column 'mass': 'bad'; expected a number", "@/b.csv:2: column 'mass': 'bad'; expected a number",
    ),
    'tfrecord': (
        test_tfrecord_mutations.TABLE, two_bad_records,
        "@/a.tfrecord: record 1: feature 'size': no value; expected a number, or a default in feature_description",
        '@/b.tfrecord: record 2: 1 bytes that are no tf.train.Example',
    ),
    'json_lines': (
        test_json_lines_mutations.TABLE, two_bad('a.jsonl', b'20', b'30'),
        '@/a.jsonl:2: no JSON at column 22: Expecting value', '@/b.jsonl:1: no JSON at column 26: Expecting value',
    ),
    'text': (
        test_text_mutations.TABLE, two_bad('a.tsv', b'good\tthe', b'bad'),
        "@/a.tsv:3: label: 'bad sun'; expected one of good, bad; did you mean 'bad'?",
        "@/b.tsv:1: label: 'sad'; expected one of good, bad; did you mean 'bad'?",
    ),
    'image_folder': (
        test_image_folder_mutations.TABLE, two_bad_images,
        '@/cat/1.png: the file is empty; expected an image', '@/dog/3.png: the file is empty; expected an image',
    ),
}  # fmt: skip


def cases_of(name):
    """Two bad records in training, with more and less of them allowed."""
    _, change, first, second = FORMATS[name]
    total = 6 if name == 'image_folder' else 7
    said = [f'{SKIPPED}{first}', f'{SKIPPED}{second}', 'left out   2 bad records']
    first, second = first.partition('expected')[0], second.partition('expected')[0]

    def limit(number, *more):
        return [f'{name}_input_fn.max_bad_records = {number}', *more]

    if name in ('json_lines', 'text'):  # they have all but a line's meaning in common with CSV
        return {
            'none bad': Case(same, 0, total, limit(1)),
            'at': Case(change, 0, total - 2, limit(2), said, want_bad=2),
        }
    endless = [f'{name}_input_fn.repeat = True', 'experiment.max_steps = 20']
    return {
        'none bad': Case(same, 0, total, limit(1)),
        'below': Case(change, 2, f'{first}...', limit(1)),
        # The paths of images are handed to TensorFlow all at once.
        'below, late': Case(change, 1 + (name == 'image_folder'), f'{second}...', limit(1, LATE), want_bad=1),
        'at': Case(change, 0, total - 2, limit(2), said, want_bad=2),
        'above': Case(change, 0, total - 2, limit(3), said, want_bad=2),
        # A bad record counts once, and not in each epoch.
        'repeated': Case(change, 0, 40, limit(2, *endless), said, want_bad=2),
        'shuffled': Case(change, 0, 40, limit(2, *endless, f'{name}_input_fn.shuffle_buffer = 3'), said, want_bad=2),
        'cached': Case(change, 0, 40, limit(2, *endless, f'{name}_input_fn.cache = True'), said, want_bad=2),
        'negative': Case(
            same, 2, f'--gin_param #2: {name}_input_fn.max_bad_records: -1; expected at least 0', limit(-1)
        ),
    }


@pytest.fixture(scope='module', params=FORMATS)
def outcomes(request, tmp_path_factory):
    table = dataclasses.replace(FORMATS[request.param][0], cases=cases_of(request.param))
    cwd = tmp_path_factory.mktemp(request.param)
    return table, cwd, table.run(cwd)


@pytest.mark.once('newest')
@pytest.mark.parametrize('name', cases_of('csv'))
def test_limit(outcomes, name):
    table, cwd, results = outcomes
    if name not in results:
        pytest.skip('as for CSV')
    table.check(cwd, name, results[name])
    if name.startswith('below'):
        assert ALLOWS in results[name].err


READS = [
    'experiment.eval_input_fn = @read/csv_input_fn',
    "read/csv_input_fn.files = 'bad/*.csv'",
    'read/csv_input_fn.batch_size = 1',
]
EVALUATE, PREDICT = ['--mode=evaluate'], ['--mode=predict']
# name -> (arguments, gin statements, exit code, what is said)
MODES = {
    'evaluation': (EVALUATE, ['read/csv_input_fn.max_bad_records = 2'], 0, '(5 examples)'),
    'evaluation, one too many': (EVALUATE, ['read/csv_input_fn.max_bad_records = 1'], 2, ALLOWS),
    'evaluation, late': (EVALUATE, [LATE], 1, "error: bad/a.csv:3: column 'mass': 'bad'; expected a number"),
    'prediction': (PREDICT, ['read/csv_input_fn.max_bad_records = 2'], 0, '(5 records)'),
    'prediction, one too many': (PREDICT, ['read/csv_input_fn.max_bad_records = 1'], 2, ALLOWS),
    'prediction, late': (PREDICT, [LATE], 1, "error: bad/a.csv:3: column 'mass': 'bad'; expected a number"),
    'prediction without label': (PREDICT, ["read/csv_input_fn.files = 'unlabelled.csv'"], 0, '(2 records)'),
    'evaluation without label': (
        EVALUATE, ["read/csv_input_fn.files = 'unlabelled.csv'"], 2, "feature_description.label: no column 'species'",
    ),
    'nothing to evaluate': (
        EVALUATE, ["read/csv_input_fn.files = 'header.csv'"], 2, 'error: header.csv: no record after the header',
    ),
    'nothing to evaluate, in training': (
        ['--mode=train_and_evaluate', '--model_dir=other'], ["read/csv_input_fn.files = 'header.csv'"], 2,
        'error: header.csv: no record after the header',
    ),
    'nothing good to evaluate': (
        EVALUATE, ["read/csv_input_fn.files = 'none.csv'", 'read/csv_input_fn.max_bad_records = 5'], 2,
        'error: none.csv:2: 1 fields; expected 5; no record is good',
    ),
}  # fmt: skip


@pytest.fixture(scope='module')
def outcomes_of_modes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('modes')
    table = dataclasses.replace(FORMATS['csv'][0], cases={'good': Case(same, 0, 7)})
    table.check(cwd, 'good', table.run(cwd)['good'])
    (cwd / 'bad').mkdir()
    for name, content in table.files.items():
        (cwd / 'bad' / name).write_bytes(content)
    FORMATS['csv'][1](cwd / 'bad')
    (cwd / 'header.csv').write_text(f'{test_csv_mutations.HEADER}\n\n')
    (cwd / 'none.csv').write_text(f'{test_csv_mutations.HEADER}\nx\ny\n')
    (cwd / 'unlabelled.csv').write_text('mass,age,kind,name\n1,2,wild,A\n,3,tame,B\n')
    commands = {}
    for name, (arguments, statements, _, _) in MODES.items():
        shutil.copytree(cwd / 'good_model', cwd / name)
        bound = program.bind("csv_input_fn.files = 'good/*.csv'", *READS, *statements)
        output = [f'--output={name}.jsonl'] * (arguments == PREDICT)
        commands[name] = ['--gin_file=case.gin', f'--model_dir={name}', *arguments, *output, *bound]
    return cwd, program.run_forked(commands, cwd)


@pytest.mark.once('oldest')
@pytest.mark.parametrize('name', MODES)
def test_mode(outcomes_of_modes, name):
    cwd, results = outcomes_of_modes
    arguments, _, want_code, want_said = MODES[name]
    result = results[name].check(want_code)
    assert want_said in result.out + result.err
    assert 'Traceback' not in result.err
    if want_code:
        assert result.err.splitlines()[-1].startswith(ERROR)
    output = cwd / f'{name}.jsonl'
    assert output.exists() == (arguments == PREDICT and not want_code)
    if output.exists():
        assert len(output.read_text().splitlines()) == int(want_said[1])
    if name == 'evaluation':
        assert program.summary(cwd / name)['bad_records'] == 2
    assert not (cwd / 'other').exists()
