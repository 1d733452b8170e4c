"""Files with a text a line, each after its label."""

from collections.abc import Iterable

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.features import Description, shown
from input_fns import records, values
from input_fns.files import find
from input_fns.forms import Lines
from input_fns.reading import filled

_NAME = 'text_input_fn'


@gin.configurable
def text_input_fn(
    files: str | Iterable[str] = gin.REQUIRED,
    separator: str = '\t',
    batch_size: int = 32,
    shuffle_buffer: int = 10_000,
    repeat: bool = True,
    seed: int | None = None,
    cache: bool = False,
    max_bad_records: int = 0,
    mode: str | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads files with a text a line, compressed by gzip or not: `label<separator>text`.

    `feature_description` has one feature, of dtype string, the text, and may have a label; without one, and in PREDICT
    mode where there is no separator in a line, all of the line is the text. Quotes have no meaning. A blank line is
    left out.

    Args:
        files: A path, a glob pattern, or a list of them, found by the rule of `input_fns.files`.
        separator: What stands between label and text; the text may hold it too.
        batch_size: Examples of one step over all synchronous replicas: the global batch.
        shuffle_buffer: Records to draw the next one from, anew in each epoch; 0 keeps the files' order.
        repeat: Whether to begin again at the end of the data, without end.
        seed: Seed of the shuffle; None derives it from `RunConfig.tf_random_seed`.
        cache: Whether the records are kept in memory from the first epoch on.
        max_bad_records: Number of bad records that each process leaves out and tells of.
        mode: A `tf.estimator.ModeKeys`; PREDICT gives no label.
        input_context: What Estimator tells about the replicas and input pipelines.

    Returns:
        A dataset as that of `csv_input_fn`; the text is a string [replica batch].

    Raises:
        UserError: A file or number that cannot be as bound, or another `feature_description`. A record that is bad
            raises tf.errors.InvalidArgumentError when it is read.
    """
    description = records.described(_NAME, None)
    if [feature.dtype for feature in description.features.values()] != ['string']:
        names = ', '.join(f'{name} ({feature.dtype})' for name, feature in description.features.items())
        raise UserError(f'feature_description.features: {names}; {_NAME} expects one feature, of dtype string')
    if not separator:
        raise UserError(f'{records.binding(_NAME, "separator")}: empty; expected what stands between label and text')
    paths = find(files, records.binding(_NAME, 'files'))
    return records.batches(
        _NAME,
        filled(records.binding(_NAME, 'files'), paths, 'a text a line'),
        _Text(description, separator, mode == tf.estimator.ModeKeys.PREDICT),
        batch_size=batch_size,
        shuffle_buffer=shuffle_buffer,
        repeat=repeat,
        seed=seed,
        cache=cache,
        max_bad_records=max_bad_records,
        input_context=input_context,
    )


class _Text(Lines):
    """Lines of a label and a text."""

    def __init__(self, description: Description, separator: str, predicts: bool):
        super().__init__()
        self._labeled = description.label is not None
        self._description = description.without_label() if predicts else description
        (self._feature,) = description.features.values()
        self._separator = separator

    def check(self, record: bytes) -> None:
        try:
            line = record.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f'no UTF-8 text at byte {error.start + 1}') from None
        before, found, after = line.partition(self._separator) if self._labeled else ('', '', '')
        if label := self._description.label:
            if not found:
                raise ValueError(f'no separator {self._separator!r} in {shown(line)}; expected label and text')
            try:
                label.from_text(before or self.missing(label))
            except ValueError as error:
                raise ValueError(f'label: {error}') from None
        text = after if found else line
        if self.is_blank(text.encode()):
            raise ValueError('no text')
        self._feature.check(text)

    def parse(self, lines):
        lines = self.filled(lines)
        values.check_utf8(lines)
        batch = {self._feature.name: lines}
        if self._labeled:
            parts = tf.strings.split(lines, self._separator, maxsplit=1)
            # In predictions a line may well have no label.
            batch[self._feature.name] = parts[:, -1:].flat_values
        if label := self._description.label:
            values.ensure(tf.reduce_all(tf.equal(parts.row_lengths(), 2)), 'a line without separator')
            given = parts[:, :1].flat_values
            if label.dtype != 'string':
                given = tf.strings.to_number(given, tf.int64 if label.is_whole else tf.as_dtype(label.dtype))
            batch[label.name] = given
        values.ensure(tf.reduce_all(self.there(batch[self._feature.name])), 'no text')
        return values.example(self._description, batch)
