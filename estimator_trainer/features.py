"""What a feature, a cross of features and a label are, and whether a value can be one of them."""

import dataclasses
import functools
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from estimator_trainer.compat import tf
from estimator_trainer.errors import nearest

DTYPES = ('float32', 'float64', 'int32', 'int64', 'string')
# What becomes of a value that is not in the vocabulary.
OUT_OF_VOCABULARY = ('bucket', 'ignore', 'error')
# What all versions of TensorFlow read as a number. Some also read hexadecimal numbers, a blank (as 0) and a plus sign
# before a whole number, and some no number of 32 characters.
_NUMBER = re.compile(r'\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*', re.ASCII)
_WHOLE_NUMBER = re.compile(r'\s*-?\d+\s*', re.ASCII)
_LONGEST_NUMBER = 31
_NUMBERS = (float, int)  # those that need not be looked at twice
_SHOWN = 40  # characters of a value that is shown in an error
_NAMED = 10  # words of a vocabulary that are named in an error
_LOOKED_THROUGH = 1000  # words among which the nearest is looked for


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature, or the label.

    Attributes:
        name: its name in the input.
        dtype: one of DTYPES.
        shape: of one example's value.
        default: stands for a missing value, everywhere in the shape; None where a value must be there.
        vocabulary: the values, in the order of their ids.
        out_of_vocabulary: one of OUT_OF_VOCABULARY.
        hash_buckets: number of ids that values are hashed to.
        num_buckets: number of ids, where the values are ids themselves: 0 to num_buckets - 1.
        boundaries: between the ranges of a number: so many ids and one more.
        normalize: (mean, standard deviation) that a number is standardised by, in its own unit.
        embedding_size: number of columns of a table of embeddings; None leaves it to the model.
        is_label: whether it is the label: every value must then be in the vocabulary.
    """

    name: str
    dtype: str = 'float32'
    shape: tuple[int, ...] = ()
    default: Any = None
    vocabulary: tuple | None = None
    out_of_vocabulary: str = 'bucket'
    hash_buckets: int | None = None
    num_buckets: int | None = None
    boundaries: tuple[float, ...] | None = None
    normalize: tuple[float, float] | None = None
    embedding_size: int | None = None
    is_label: bool = False

    @property
    def is_category(self) -> bool:
        """Whether models take the value for an id, and not for a number."""
        return self.ids is not None

    @property
    def ids(self) -> int | None:
        """Number of ids, None for a number."""
        if self.vocabulary is not None:
            return len(self.vocabulary) + (self.out_of_vocabulary == 'bucket')
        if self.boundaries is not None:
            return len(self.boundaries) + 1
        return self.hash_buckets or self.num_buckets

    @functools.cached_property
    def size(self) -> int:
        """Number of values of one example."""
        return math.prod(self.shape)

    @property
    def spec(self) -> tf.TensorSpec:
        """The tensor of a batch."""
        return tf.TensorSpec([None, *self.shape], self.dtype)

    def fits(self, spec: Any) -> bool:
        """Returns whether it is what describes the tensors of a batch that `spec` is of."""
        return isinstance(spec, tf.TensorSpec) and self.spec.is_compatible_with(spec)

    @property
    def parsing(self) -> tf.io.FixedLenFeature:
        """How tf.io.parse_example reads it: as int64, float32 or bytes."""
        kind = tf.as_dtype(self.dtype)
        stored = tf.float32 if kind.is_floating else tf.int64 if kind.is_integer else tf.string
        default = None if self.default is None else [self.default] * self.size
        return tf.io.FixedLenFeature(self.shape, stored, default)

    def from_text(self, text: str) -> Any:
        """Returns the value that a cell of text holds.

        Raises:
            ValueError: it holds none; the error says what was expected.
        """
        value: Any = text
        if self.dtype != 'string':
            if not (_WHOLE_NUMBER if self.is_whole else _NUMBER).fullmatch(text):
                raise ValueError(f'{shown(text)}; expected {self._expected}')
            if len(text) > _LONGEST_NUMBER:
                raise ValueError(f'{shown(text)}; expected {self._expected} of at most {_LONGEST_NUMBER} characters')
            value = int(text) if self.is_whole else float(text)
        if problem := self.problem(value):
            raise ValueError(f'{shown(text)}; {problem}')
        return value

    def check(self, value: Any) -> None:
        """Looks whether something can be one value of one example.

        Raises:
            ValueError: it cannot; the error says what was found and what was expected.
        """
        if problem := self.problem(value):
            raise ValueError(f'{shown(value)}; {problem}')

    def problem(self, value: Any) -> str | None:
        """Returns what was expected instead of one value of one example (a Python or NumPy scalar), or None."""
        if self.dtype == 'string':
            if isinstance(value, bytes):
                value = value.decode(errors='surrogateescape')
            elif not isinstance(value, str):
                return 'expected text'
            elif not value.isascii() and re.search('[\ud800-\udfff]', value):
                return 'expected text without halves of characters'
        elif type(value) not in _NUMBERS and not _is_number(value):
            return f'expected {self._expected}'
        elif not self.is_whole:
            # What is rounded to the largest number is that number.
            if not abs(value) <= self._largest and not np.isfinite(_rounded(value, self.given)):
                return f'expected a finite {self.given}'
        elif value in (math.inf, -math.inf) or value != value or value != int(value):
            return 'expected a whole number'
        elif not -self._largest - 1 <= int(value) <= self._largest:
            return f'expected a whole number that fits {self.given}'
        if self.num_buckets is not None and not 0 <= value < self.num_buckets:
            return f'expected 0 to {self.num_buckets - 1}'
        if self.vocabulary is not None and self.must_be_known and value not in self._known:
            names = ', '.join(map(str, self.vocabulary[:_NAMED])) + ', ...' * (len(self.vocabulary) > _NAMED)
            hint = nearest(str(value), map(str, self.vocabulary)) if len(self.vocabulary) <= _LOOKED_THROUGH else ''
            return f'expected one of {names}{hint}'
        return None

    @functools.cached_property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return self.dtype.startswith('int')

    @property
    def given(self) -> str:
        """The dtype in which a model gets it. (Of a label with a vocabulary, that of the words.)"""
        if not self.is_label or self.vocabulary is not None:
            return self.dtype
        return 'int32' if self.is_whole else 'float32'

    @property
    def _expected(self) -> str:
        return 'a whole number' if self.is_whole else 'a number'

    @functools.cached_property
    def _largest(self) -> int | float:
        return int(np.iinfo(self.given).max) if self.is_whole else float(np.finfo(self.given).max)

    @functools.cached_property
    def _known(self) -> frozenset:
        return frozenset(self.vocabulary)

    @property
    def must_be_known(self) -> bool:
        """Whether a value outside of the vocabulary is a mistake."""
        return self.is_label or self.out_of_vocabulary == 'error'

    def __str__(self):
        kind = f'{self.dtype} {list(self.shape)}' if self.shape else self.dtype
        parts = [kind]
        if self.default is not None:
            parts.append(f'default {self.default!r}')
        if self.vocabulary is not None:
            others = {'bucket': ' and one for others', 'ignore': ', others ignored', 'error': ', others refused'}
            parts.append(
                f'vocabulary of {len(self.vocabulary)}{"" if self.is_label else others[self.out_of_vocabulary]}'
            )
        if self.hash_buckets:
            parts.append(f'{self.hash_buckets:,} hash buckets')
        if self.num_buckets:
            parts.append(f'ids below {self.num_buckets:,}')
        if self.boundaries:
            parts.append(f'{len(self.boundaries) + 1} ranges')
        if self.normalize:
            parts.append(f'({self.normalize[0]:g}, {self.normalize[1]:g}) standardised')
        if self.embedding_size:
            parts.append(f'embedding of {self.embedding_size}')
        return ', '.join(parts)


@dataclasses.dataclass(frozen=True)
class Cross:
    """Several categories taken together for one.

    Attributes:
        name: its name.
        of: names of the features.
        hash_buckets: number of ids that their combinations are hashed to.
        embedding_size: see `Feature`.
    """

    name: str
    of: tuple[str, ...]
    hash_buckets: int
    embedding_size: int | None = None

    def __str__(self):
        embedding = f', embedding of {self.embedding_size}' if self.embedding_size else ''
        return f'{" x ".join(self.of)}, {self.hash_buckets:,} hash buckets{embedding}'


@dataclasses.dataclass(frozen=True)
class Description:
    """What the features and the label are.

    Attributes:
        features: name -> feature.
        crosses: name -> cross.
        label: None where there is nothing to predict.
    """

    features: Mapping[str, Feature]
    crosses: Mapping[str, Cross] = dataclasses.field(default_factory=dict)
    label: Feature | None = None

    def without_label(self) -> 'Description':
        """Returns the description of the features alone, for predictions."""
        return dataclasses.replace(self, label=None)

    @property
    def all(self) -> list[Feature]:
        """The features, and the label where there is one."""
        return [*self.features.values(), *([self.label] if self.label else [])]

    @property
    def categories(self) -> list[Feature]:
        """The features that models take for ids."""
        return [feature for feature in self.features.values() if feature.is_category]

    @property
    def numbers(self) -> list[Feature]:
        """The features that models take for numbers."""
        return [feature for feature in self.features.values() if not feature.is_category and feature.dtype != 'string']


def numbers_and_label(names: Sequence[str], label: str | None, vocabulary: Sequence[str] | None) -> Description:
    """Returns the description of float32 numbers and of a label, a class number where there is no vocabulary."""
    target = None
    if label is not None:
        words = None if vocabulary is None else tuple(vocabulary)
        target = Feature(label, 'int32' if words is None else 'string', vocabulary=words, is_label=True)
    return Description({name: Feature(name) for name in names}, label=target)


def shown(value: Any) -> str:
    """Returns a value as an error shows it."""
    if isinstance(value, bytes):
        value = value.decode(errors='surrogateescape')
    # NumPy's numbers show their type in repr.
    text = str(value) if isinstance(value, numbers.Number | np.generic) else repr(value)
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _rounded(value: Any, dtype: str) -> np.generic:
    try:
        with np.errstate(over='ignore'):
            return np.dtype(dtype).type(value)
    except OverflowError:  # an int
        return np.float64(np.inf)
