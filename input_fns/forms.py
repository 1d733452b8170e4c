"""What the records of a kind of file are: to TensorFlow, which reads them, and to Python, which tells the bad ones."""

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_trainer.compat import tf
from estimator_trainer.features import Feature
from input_fns.reading import BadFile, lines_of

# AutoGraph would take a second to rewrite the functions of a dataset, which need no rewriting.
as_it_is = tf.autograph.experimental.do_not_convert


class Form:
    """The form of the records of one kind of file.

    Attributes:
        batched: whether `parse` takes a batch of records, not a single one.
        compressed: whether a file may be compressed.
    """

    batched = True
    compressed = True

    def __init__(self):
        self._seen = 0
        self._missing: collections.Counter[str] = collections.Counter()

    def dataset(self, path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
        """Returns the records of a file as strings, read by TensorFlow."""
        raise NotImplementedError

    def read(self, path: str) -> Iterator[tuple[int, bytes]]:
        """Yields the records of a file with their numbers, read by Python.

        Raises:
            BadFile: the file cannot be read any further.
        """
        raise NotImplementedError

    def ends_unseen(self, compression: str) -> bool:
        """Returns whether TensorFlow may take a file that is cut short for one that ends there."""
        return bool(compression)

    def check_end(self, path: str) -> None:
        """Reads a file to its end.

        Raises:
            BadFile: the file is cut short.
        """
        collections.deque(self.read(path), maxlen=0)

    def place(self, path: str, number: int) -> str:
        """Returns what an error calls a record."""
        return f'{path}:{number}'

    def mistake(self, record: bytes) -> str | None:
        """Returns what is wrong with a record, or None; counts what `remarks` tells."""
        self._seen += 1
        try:
            self.check(record)
        except ValueError as error:
            return str(error)
        return None

    def check(self, record: bytes) -> Any:
        """Reads a record.

        Raises:
            ValueError: it is bad; the error says what was found and what was expected.
        """
        raise NotImplementedError

    def missing(self, feature: Feature) -> Any:
        """Returns the default of a feature whose value is missing.

        Raises:
            ValueError: it has none.
        """
        if feature.default is None:
            what = 'text' if feature.dtype == 'string' else 'a number'
            hint = '' if feature.is_label else ', or a default in feature_description'
            raise ValueError(f'no value; expected {what}{hint}')
        self._missing[feature.name] += 1
        return feature.default

    def remarks(self) -> list[str]:
        """Returns what is to be said of the records that `mistake` has seen."""
        if not self._missing:
            return []
        counts = ', '.join(f'{name} {count:,}' for name, count in self._missing.most_common())
        return [f'of {self._seen:,} records some have no value, and take the default: {counts}']

    def holds_any(self, paths: Sequence[str], pipelines: int, pipeline: int) -> bool:
        """Returns whether any record falls to an input pipeline to which every n-th element of `dataset` falls."""
        return True

    def with_records(self, batches: tf.data.Dataset, endless: bool) -> tf.data.Dataset:
        """Returns the batches that hold more than what `parse` leaves out, of `endless` many or of some."""
        return batches

    def parse(self, records: tf.Tensor) -> Any:
        """Returns features, or (features, labels), of a string [batch] or scalar; one that is bad is an error."""
        raise NotImplementedError


class Lines(Form):
    """Records that are lines of text; a blank line is none.

    Attributes:
        header: whether the first line of each file is none either.
    """

    header = False

    def dataset(self, path, compression):
        """See `Form`."""
        lines = tf.data.TextLineDataset(path, compression)
        rest = lines.skip(1)
        if self.header:
            return rest
        # A file that spreadsheets have written begins with a byte order mark.
        return lines.take(1).map(as_it_is(lambda line: tf.strings.regex_replace(line, '^\ufeff', ''))).concatenate(rest)

    def read(self, path):
        """See `Form`."""
        return ((number, line) for number, line in self._lines(path) if not self.is_blank(line))

    def _lines(self, path: str) -> Iterator[tuple[int, bytes]]:
        return ((number, line) for number, line in lines_of(path) if number > self.header)

    def is_blank(self, line: bytes) -> bool:
        """Returns whether a line is no record."""
        return not line.strip()

    def there(self, lines: tf.Tensor) -> tf.Tensor:
        """Returns which lines are not blank, bool [batch]."""
        return tf.not_equal(tf.strings.strip(lines), '')

    def holds_any(self, paths, pipelines, pipeline):
        """See `Form`."""
        try:
            lines = (line for path in paths for _, line in self._lines(path))
            return any(i % pipelines == pipeline and not self.is_blank(line) for i, line in enumerate(lines))
        except BadFile:
            return True

    def with_records(self, batches, endless):
        """See `Form`."""
        batches = batches.filter(as_it_is(lambda lines: tf.reduce_any(self.there(lines))))
        # After a filter it is not known that there is no end.
        known = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        return batches.apply(known) if endless else batches

    def filled(self, lines: tf.Tensor) -> tf.Tensor:
        """Returns the lines of a batch that are not blank."""
        return tf.gather(lines, tf.where(self.there(lines))[:, 0])
