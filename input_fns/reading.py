"""What is in a file, read by Python: which compression, which lines, and where it cannot be read any further."""

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

_GZIP = b'\x1f\x8b'
_HEAD = 16  # bytes by which a kind of file is told
# What begins the kinds of files that are taken for others at times: more than their magic number, which text may begin
# with as well.
_OTHER_KINDS = {
    rb'BZh[1-9]1AY&SY': 'compressed by bzip2; expected gzip or no compression',
    rb'\xfd7zXZ\0': 'compressed by xz; expected gzip or no compression',
    rb'\x28\xb5\x2f\xfd': 'compressed by zstd; expected gzip or no compression',
    rb'PK\x03\x04': 'a zip archive (or .xlsx)',
    rb'PAR1\x15': 'a Parquet file',
    rb'\xff\xfe|\xfe\xff': 'UTF-16 text; expected UTF-8',
}
_MARK = b'\xef\xbb\xbf'


class BadFile(Exception):
    """Reading cannot go on in a file.

    Attributes:
        number: of the record that cannot be read.
    """

    def __init__(self, number: int, text: str):
        super().__init__(text)
        self.number = number


class _File(io.RawIOBase):
    """A file of any file system that TensorFlow knows, as Python's readers take it."""

    def __init__(self, path: str):
        self._file = tf.io.gfile.GFile(path, 'rb')

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()


def opened(path: str) -> io.BufferedIOBase:
    """Returns the content of a file, decompressed where it is compressed by gzip."""
    file = io.BufferedReader(_File(path), 1 << 20)
    return gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file


def compression_of(path: str) -> str:
    """Returns what TensorFlow calls the compression of a file: 'GZIP' or ''."""
    return 'GZIP' if _head(path)[:2] == _GZIP else ''


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file and their numbers, from 1, without line ends and the byte order mark.

    Raises:
        BadFile: the file cannot be read any further.
    """
    number = 0
    try:
        for number, line in enumerate(opened(path), 1):
            line = line.rstrip(b'\r\n')
            if number == 1:
                line = line.removeprefix(_MARK)
                if b'\r' in line:
                    raise BadFile(1, 'carriage returns between the lines; expected line feeds')
            # TensorFlow leaves out every carriage return.
            yield number, line.replace(b'\r', b'')
    except EOFError:
        raise BadFile(number + 1, 'the gzip file is cut short') from None
    except (OSError, zlib.error, tf.errors.OpError) as error:
        raise BadFile(number + 1, f'cannot be read: {getattr(error, "message", error)}') from None


def filled(binding: str, paths: Sequence[str], what: str) -> list[str]:
    """Returns those of the files that are not empty.

    Args:
        binding: the Gin binding that names the files, for errors.
        paths: of the files.
        what: what is expected in them, for errors.

    Raises:
        UserError: one cannot be opened, or is of another kind, or all are empty.
    """
    heads = {}
    for path in paths:
        try:
            heads[path] = _head(path)
        except tf.errors.OpError as error:
            raise UserError(f'{binding}: cannot read {path}: {error.message}') from None
        for start, kind in _OTHER_KINDS.items():
            if re.match(start, heads[path]):
                raise UserError(f'{path}: {kind}{"" if "expected" in kind else f"; expected {what}"}')
    if not any(heads.values()):
        more = f', and so are {len(paths) - 1} more' if len(paths) > 1 else ''
        raise UserError(f'{paths[0]}: the file is empty{more}; expected {what}')
    return [path for path in paths if heads[path]]


def _head(path: str) -> bytes:
    with tf.io.gfile.GFile(path, 'rb') as file:
        return file.read(_HEAD)
