"""The strategy for TPUs, made only where there is one: TensorFlow would look for minutes. No TensorFlow at import."""

import glob
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import gin

from estimator_trainer.errors import UserError

# So long a name is looked up, at the metadata server and Cloud TPU's API, and a server may take to greet.
_SECONDS_TO_FIND = 6.0
# So long a TPU that is there may take to begin: a large one takes minutes.
_SECONDS_TO_BEGIN = 300.0
# What opens an HTTP/2 connection, which gRPC is: a fixed text and a frame of no settings. A server answers with one.
_GREETING = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HEADERS, _SETTINGS = 1, 4  # kinds of frames
_ERRORS = range(0x8B, 0x8F)  # how an answer begins that is a status of 304, 400, 404 or 500
# What tells TensorFlow's resolver which TPU to take, where nobody names one.
_VARIABLES = ('TPU_NAME', 'KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS')


class TPUClusterResolver(NamedTuple):
    """Which TPU: what TensorFlow's class of this name takes; that looks for it at once, this one does not."""

    tpu: str | None = None
    zone: str | None = None
    project: str | None = None


@gin.configurable(module='estimator_trainer')
def tpu(tpu: str = '', zone: str | None = None, project: str | None = None, use_tpu: bool = True) -> Any:
    """Returns a strategy for TPUs: what `--strategy=tpu` stands for.

    Args:
        tpu: name or address of the TPU, or 'local'; '' takes that in TPU_NAME, else a device of this machine.
        zone: of Cloud TPU, where it is not that of this machine.
        project: of Cloud TPU, where it is not that of this machine.
        use_tpu: False trains without a TPU, on the CPU and without a strategy.

    Raises:
        UserError: there is no such TPU, or it does not answer.
    """
    if not isinstance(use_tpu, bool):
        raise UserError(f'tpu.use_tpu: expected True or False, found {use_tpu!r}')
    for name, value in (('tpu', tpu), ('zone', zone), ('project', project)):
        if value is not None and not isinstance(value, str):
            raise UserError(f'tpu.{name}: expected a text, found {value!r}')
    return TPUStrategy(TPUClusterResolver(tpu, zone, project)) if use_tpu else None


def TPUStrategy(tpu_cluster_resolver: Any = None) -> Any:
    """Returns the tf.compat.v1.distribute.experimental.TPUStrategy, which Estimator can use, on the TPU of a resolver.

    Raises:
        UserError: there is no such TPU, or it does not answer.
    """
    from estimator_trainer.compat import tf

    resolver = tpu_cluster_resolver or TPUClusterResolver()
    if isinstance(resolver, TPUClusterResolver):
        resolver = _find(resolver)
    master = resolver.master()
    what = f'the TPU at {master or "this machine"}'
    if '://' in master:
        _check_greeting(master)
        _within(_SECONDS_TO_FIND, lambda: tf.config.experimental_connect_to_cluster(resolver), f'{what} is not reached')

    def make() -> Any:
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.compat.v1.distribute.experimental.TPUStrategy(resolver)

    return _within(_SECONDS_TO_BEGIN, make, f'{what} does not begin')


def _find(wanted: TPUClusterResolver) -> Any:
    """Returns TensorFlow's resolver; an address has been seen to answer."""
    from estimator_trainer.compat import tf

    variable = next((name for name in _VARIABLES if os.environ.get(name)), None)
    name = wanted.tpu or os.environ.get(variable or '')
    where = f'tpu={wanted.tpu!r}' if wanted.tpu or not variable else f'{variable}={name}'
    if name in (None, '', 'local'):
        # The nodes of TPUs that are attached to this machine, older and newer ones.
        if not (tf.config.list_physical_devices('TPU') or glob.glob('/dev/accel*')):
            unset = '' if name else ', TPU_NAME is not set'
            raise UserError(f'TPUStrategy requested but no TPU found ({where}{unset}, no TPU device on this machine)')
        name = 'local'
    elif variable != 'KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS' and ('://' in name or ':' in name):
        _check_greeting(name, where)

    def find() -> Any:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name, wanted.zone, wanted.project)
        resolver.master()  # here it is looked up
        return resolver

    return _within(_SECONDS_TO_FIND, find, f'TPUStrategy requested but no TPU found ({where})')


def _check_greeting(address: str, where: str = '') -> None:
    """Raises a UserError unless a gRPC server answers at `address`.

    TensorFlow itself would try again for minutes, or crash where a proxy answers.
    """
    try:
        host, _, port = address.rpartition('://')[2].split(',')[0].rpartition(':')
        with socket.create_connection((host.strip('[]'), int(port)), timeout=_SECONDS_TO_FIND / 2) as connection:
            connection.settimeout(_SECONDS_TO_FIND / 2)
            connection.sendall(_GREETING + _request(host))
            kind, _ = _frame(connection)
            found = '' if kind == _SETTINGS else 'no gRPC server answers there'
            while not found and kind != _HEADERS:
                kind, answer = _frame(connection)
                if kind == _HEADERS and answer[:1] and answer[0] in _ERRORS:
                    found = 'a server answers there that knows no TensorFlow'
    except (OSError, ValueError) as error:
        found = str(error)
    if found:
        raise UserError(f'TPUStrategy requested but no TPU found ({where or address}): {found}')


def _request(host: str) -> bytes:
    """Returns the frames that ask TensorFlow's server, without words, for its status."""

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    # POST and http, which have numbers, as the names of path and authority have; then two headers in full.
    headers = b'\x83\x86\x04' + text('/tensorflow.WorkerService/GetStatus') + b'\x01' + text(host[:100])
    headers += b'\0' + text('content-type') + text('application/grpc') + b'\0' + text('te') + text('trailers')
    message = bytes(5)
    return (
        len(headers).to_bytes(3, 'big')
        + bytes([_HEADERS, 4, 0, 0, 0, 1])
        + headers
        + len(message).to_bytes(3, 'big')
        + bytes([0, 1, 0, 0, 0, 1])
        + message
    )


def _frame(connection: socket.socket) -> tuple[int, bytes]:
    """Returns the kind and the content of the next HTTP/2 frame."""
    with connection.makefile('rb', buffering=0) as file:
        parts = []
        for size in (9, None):
            size, part = int.from_bytes(parts[0][:3], 'big') if size is None else size, b''
            while len(part) < size:
                more = file.read(size - len(part))
                if not more:
                    raise OSError('the server there hangs up')
                part += more
            parts.append(part)
    return parts[0][3], parts[1]


def _within(seconds: float, function: Callable[[], Any], what: str) -> Any:
    """Returns what `function` returns, which may block for longer than one would wait.

    Raises:
        UserError: `what`, and why: it takes longer, or has failed.
    """
    results: list[Any] = []
    errors: list[Exception] = []

    def call() -> None:
        try:
            results.append(function())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    why = str(errors[0]).strip().splitlines()[:1] if errors else [f'no answer within {seconds:g} s']
    raise UserError(f'{what}: {"".join(why) or type(errors[0]).__name__}')
