"""CSV files as batches of named columns."""

import re
from collections.abc import Iterable, Sequence

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.feature_description import feature_description
from estimator_trainer.features import Description, Feature, numbers_and_label
from input_fns import records, values
from input_fns.files import find
from input_fns.forms import Lines
from input_fns.reading import BadFile, filled, lines_of

_NAME = 'csv_input_fn'


@gin.configurable
def csv_input_fn(
    files: str | Iterable[str] = gin.REQUIRED,
    label: str | None = None,
    features: Sequence[str] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str = ',',
    na_value: str = '',
    batch_size: int = 32,
    shuffle_buffer: int = 10_000,
    repeat: bool = True,
    seed: int | None = None,
    cache: bool = False,
    max_bad_records: int = 0,
    mode: str | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads CSV files, compressed by gzip or not.

    What the columns are is said by `feature_description`; where that is not bound, by `label`, `features` and
    `label_vocabulary`. A feature with a shape is read from the columns `name_0`, `name_1` and so on.

    A record is one line: a quoted field holds no line break. A blank line is left out; its batch is one smaller. Each
    record is read by exactly one of the input pipelines of a cluster: files are dealt out to them where there is one
    for each, else the records of all files.

    Args:
        files: A path, a glob pattern, or a list of them, found by the rule of `input_fns.files`.
        label: The column to predict, without `feature_description`. None gives features alone, for prediction.
        features: The columns to read as numbers, without `feature_description`; by default all but the label.
        label_vocabulary: The label's values as text, in class order, without `feature_description`. None reads the
            label as an integer class.
        columns: The names of the columns of files without a header; None where the first line of each file names them.
        delimiter: One character between two fields.
        na_value: What stands for a missing value, besides nothing at all.
        batch_size: Examples of one step over all synchronous replicas: the global batch.
        shuffle_buffer: Records to draw the next one from, anew in each epoch; 0 keeps the files' order. At least the
            number of records shuffles fully.
        repeat: Whether to begin again at the end of the data, without end. If False the last batch may be smaller.
        seed: Seed of the shuffle; None derives it from `RunConfig.tf_random_seed`.
        cache: Whether the records are kept in memory from the first epoch on.
        max_bad_records: Number of bad records that each process leaves out and tells of; one more ends the run. Above 0
            Python looks at each record, which is several times as slow.
        mode: A `tf.estimator.ModeKeys`; PREDICT reads no label of a `feature_description`.
        input_context: What Estimator tells about the replicas and input pipelines.

    Returns:
        A dataset of (features, labels), or of features when there is no label: a dict from name to [replica batch,
        *shape] in the feature's dtype, and int32 classes or float32 numbers [replica batch].

    Raises:
        UserError: A file, column or number that cannot be as bound. A record that cannot be parsed, or whose label is
            not in the vocabulary, raises tf.errors.InvalidArgumentError when it is read.
    """
    paths = find(files, records.binding(_NAME, 'files'))
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise UserError(f'{records.binding(_NAME, "delimiter")}: {delimiter!r}; expected one character')
    for parameter, value in (('columns', columns), ('features', features), ('label_vocabulary', label_vocabulary)):
        if isinstance(value, str):
            raise UserError(f'{records.binding(_NAME, parameter)}: {value!r}; expected a list')
    splitter = _Splitter(delimiter)
    header, paths = _header(paths, columns, splitter)
    description = feature_description()
    if description is None:
        names = [name for name in header if name != label] if features is None else list(features)
        _check_columns(header, {'label': [] if label is None else [label], 'features': names})
        if label in names:
            raise UserError(f'{records.binding(_NAME, "features")}: holds the label {label!r}; expected other columns')
        description = numbers_and_label(names, label, label_vocabulary)
    else:
        for parameter, value in (('label', label), ('features', features), ('label_vocabulary', label_vocabulary)):
            if value is not None:
                where = records.binding(_NAME, parameter)
                raise UserError(f'{where}: feature_description says what the columns are; expected no value here')
        description = records.described(_NAME, mode)
    form = _Csv(header, columns is None, description, splitter, na_value)
    return records.batches(
        _NAME,
        paths,
        form,
        batch_size=batch_size,
        shuffle_buffer=shuffle_buffer,
        repeat=repeat,
        seed=seed,
        cache=cache,
        max_bad_records=max_bad_records,
        input_context=input_context,
    )


def _header(paths: Sequence[str], columns: Sequence[str] | None, splitter: '_Splitter') -> tuple[list[str], list[str]]:
    """Returns the column names, on which all files agree, and the files that hold a record."""
    binding = records.binding(_NAME, 'files')
    filled(binding, paths, 'records as text' if columns else 'a row of column names')
    first, with_record = None if columns is None else list(columns), []
    for path in paths:
        lines = _first_lines(path)
        where = f'{path}:1'
        if columns is None:
            try:
                header = splitter.fields(lines.pop(0)) if lines else []
            except ValueError as error:
                raise UserError(f'{where}: {error}') from None
            if not any(header):
                raise UserError(f'{where}: no header; expected a row of column names')
            if any('\0' in name for name in header):
                raise UserError(f'{where}: no text, but bytes; expected a row of column names')
            first = first or header
            if header != first:
                found, expected = splitter.delimiter.join(header), splitter.delimiter.join(first)
                raise UserError(f'{where}: columns {found}; expected {expected} as in {paths[0]}')
        else:
            where = records.binding(_NAME, 'columns')
        if repeated := [name for i, name in enumerate(first) if name in first[:i]]:
            place = ' in the header' if columns is None else ''
            raise UserError(f'{where}: column {repeated[0]!r} occurs twice{place}')
        with_record += [path] if lines else []
    if not with_record:
        more = f', nor in {len(paths) - 1} more' if len(paths) > 1 else ''
        raise UserError(f'{paths[0]}: no record{"" if columns else " after the header"}{more}')
    return first, with_record


def _first_lines(path: str) -> list[str]:
    """Returns the first line of a file and the first one after it that is not blank, as far as there are any."""
    found: list[str] = []
    try:
        for number, line in lines_of(path):
            if number == 1 or line:
                # Columns that nobody asked for may have any name.
                found.append(line.decode(errors='backslashreplace'))
            if len(found) == 2:
                break
    except BadFile as error:
        raise UserError(f'{path}:{error.number}: {error}') from None
    return found


def _check_columns(header: Sequence[str], wanted: dict[str, Sequence[str]]) -> None:
    for parameter, names in wanted.items():
        for name in names:
            if name not in header:
                where = records.binding(_NAME, parameter)
                raise UserError(f'{where}: no column {name!r} among {", ".join(header)}{nearest(name, header)}')


class _Splitter:
    """Divides lines into fields, as tf.io.decode_csv does.

    Attributes:
        delimiter: what stands between two fields.
    """

    def __init__(self, delimiter: str):
        self.delimiter = delimiter
        between = re.escape(delimiter)
        self._field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^"{between}]*))({between}|\Z)')

    def fields(self, line: str) -> list[str]:
        """Returns the fields of a line.

        Raises:
            ValueError: it is not well formed.
        """
        if '"' not in line:
            return line.split(self.delimiter)
        fields, position, more = [], 0, True
        while more:
            match = self._field.match(line, position)
            if match is None:
                raise ValueError(
                    'a quote that does not enclose a field; expected "..." around all of a field, on one line, with '
                    'quotes in it doubled'
                )
            quoted, plain, more = match.groups()
            fields.append(plain if quoted is None else quoted.replace('""', '"'))
            position = match.end()
        return fields


class _Csv(Lines):
    """The lines of CSV files of one header."""

    def __init__(
        self, header: Sequence[str], has_header: bool, description: Description, splitter: _Splitter, na_value: str
    ):
        super().__init__()
        self.header = has_header
        self._columns = header
        self._description = description
        self._splitter = splitter
        self._na_value = na_value
        # Where nothing is text, a column that nobody asked for may be in any encoding.
        self._utf8 = any(feature.dtype == 'string' for feature in description.all)
        # Column -> the feature, or label, that it holds a value of.
        self._feature: dict[str, Feature] = {}
        for feature in description.all:
            binding = f'feature_description.{"label" if feature.is_label else "features"}'
            for column in _columns_of(feature):
                if column not in header:
                    hint = nearest(column, header)
                    raise UserError(f'{binding}: no column {column!r} among {", ".join(header)}{hint}')
                if column in self._feature:
                    raise UserError(f'{binding}: column {column!r} is of {self._feature[column].name!r} already')
                self._feature[column] = feature
        self._places = [(place, self._feature[name]) for place, name in enumerate(header) if name in self._feature]

    def is_blank(self, line):
        return not line

    def there(self, lines):
        return tf.not_equal(lines, '')

    def check(self, record: bytes) -> None:
        try:
            text = record.decode(errors='strict' if self._utf8 else 'surrogateescape')
        except UnicodeDecodeError as error:
            raise ValueError(f'no UTF-8 text at byte {error.start + 1}') from None
        fields = self._splitter.fields(text)
        if len(fields) != len(self._columns):
            raise ValueError(f'{len(fields)} fields; expected {len(self._columns)}')
        for place, feature in self._places:
            field = fields[place]
            try:
                if not field or field == self._na_value:
                    self.missing(feature)
                else:
                    feature.from_text(field)
            except ValueError as error:
                raise ValueError(f'column {self._columns[place]!r}: {error}') from None

    def parse(self, lines):
        lines = self.filled(lines)
        if self._utf8:
            values.check_utf8(lines)
        # All columns are decoded, the unused as text, since only then does decode_csv refuse a line with too many.
        decoded = tf.io.decode_csv(
            lines,
            [self._default(column) for column in self._columns],
            self._splitter.delimiter,
            na_value=self._na_value,
        )
        columns = dict(zip(self._columns, decoded, strict=True))
        batch = {}
        for feature in self._description.all:
            parts = [columns[column] for column in _columns_of(feature)]
            batch[feature.name] = tf.reshape(tf.stack(parts, 1), [-1, *feature.shape]) if feature.shape else parts[0]
        return values.example(self._description, batch)

    def _default(self, column: str) -> tf.Tensor:
        feature = self._feature.get(column)
        if feature is None:
            return tf.constant([''])
        return tf.constant([] if feature.default is None else [feature.default], feature.dtype)


def _columns_of(feature: Feature) -> list[str]:
    return [f'{feature.name}_{i}' for i in range(feature.size)] if feature.shape else [feature.name]
