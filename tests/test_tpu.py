"""--strategy=tpu where there is no TPU, and models that are written for one."""

import socket
import threading
import time

import pytest

from estimator_trainer import tpu
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from tests import program

pytestmark = pytest.mark.once('oldest')

GIN = """
import tpu_module
experiment.params = {'batch_size': 8}
experiment.train_input_fn = @tpu_input_fn
experiment.eval_input_fn = @eval/tpu_input_fn
eval/tpu_input_fn.repeat = False
experiment.exporters = [@FinalExporter()]
experiment.max_steps = 60
"""
NO_TPU = 'error: TPUStrategy requested but no TPU found'


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    project = tmp_path_factory.mktemp('tpu')
    (project / 'tpu_module.py').write_text((program.TESTS / 'tpu_module.py').read_text())
    (project / 'model_fn.gin').write_text(f'{GIN}experiment.model_fn = @tpu_model_fn\n')
    (project / 'estimator.gin').write_text(f'{GIN}experiment.estimator = @tpu_estimator\n')
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        address = f'grpc://127.0.0.1:{silent.getsockname()[1]}'
        cases = {
            'no name': ['--strategy=tpu'],
            'nobody listens': ['--strategy=tpu', *program.bind("tpu.tpu = 'grpc://127.0.0.1:1'")],
            'no answer': ['--strategy=tpu', *program.bind(f"tpu.tpu = '{address}'")],
            'a name': ['--strategy=tpu', *program.bind("tpu.tpu = 'my-tpu'", "tpu.zone = 'z'", "tpu.project = 'p'")],
            'an object': program.bind('RunConfig.train_distribute = @TPUStrategy()'),
            'an object of an address': program.bind(
                'RunConfig.train_distribute = @TPUStrategy()',
                'TPUStrategy.tpu_cluster_resolver = @TPUClusterResolver()',
                "TPUClusterResolver.tpu = 'grpc://127.0.0.1:1'",
            ),
            'no use': ['--strategy=tpu', *program.bind('tpu.use_tpu = False')],
        }
        cases = {name: ['--gin_file=model_fn.gin', *arguments] for name, arguments in cases.items()}
        cases['estimator'] = ['--gin_file=estimator.gin']
        for name, arguments in cases.items():
            arguments.append(f'--model_dir={name}')
        made = program.run_forked(cases, project)
    made['project'] = project
    return made


@pytest.mark.parametrize(
    ('name', 'want_text'),
    [
        ('no name', "(tpu='', TPU_NAME is not set, no TPU device on this machine)"),
        ('nobody listens', "(tpu='grpc://127.0.0.1:1'): [Errno 111] Connection refused"),
        ('no answer', '): timed out'),
        ('a name', "(tpu='my-tpu'): "),
        ('an object', '(tpu=None, TPU_NAME is not set, no TPU device on this machine)'),
        ('an object of an address', "(tpu='grpc://127.0.0.1:1'): "),
    ],
)
def test_no_tpu_is_one_line(results, name, want_text):
    result = results[name].check(2)
    (line,) = [line for line in result.err.splitlines() if NO_TPU in line]
    assert want_text in line
    assert 'Traceback' not in result.err
    assert not (results['project'] / name).exists()


@pytest.mark.parametrize('name', ['no use', 'estimator'])
def test_models_for_tpus_run_without_one(results, name):
    results[name].check()
    model_dir = results['project'] / name
    summary = program.summary(model_dir)
    assert (summary['final_step'], summary['examples']) == (60, 480)
    assert summary['evaluations'][-1]['metrics']['accuracy'] > 0.8
    assert summary['evaluations'][-1]['examples'] == 64
    assert len(list((model_dir / 'export' / 'final').iterdir())) == 1


def test_a_server_of_tensorflow_is_known_by_its_answer():
    server = tf.distribute.Server.create_local_server()
    tpu._check_greeting(server.target)


@pytest.mark.parametrize(
    ('answer', 'want_text'),
    [
        (b'HTTP/1.1 400 Bad Request\r\n\r\n', 'hangs up'),
        (b'\0\0\0\1\4\0\0\0\1', 'no gRPC server answers there'),
        (b'\0\0\0\4\0\0\0\0\0' + b'\0\0\1\1\4\0\0\0\1\x8d', 'knows no TensorFlow'),
    ],
    ids=['HTTP/1', 'another frame', 'a proxy'],
)
def test_other_servers_are_no_tpu(answer, want_text):
    with socket.create_server(('127.0.0.1', 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(UserError, match=f'TPUStrategy requested but no TPU found .*{want_text}'):
            tpu._check_greeting(f'127.0.0.1:{server.getsockname()[1]}')
        thread.join()


def test_what_blocks_is_given_up():
    with pytest.raises(UserError, match=r'^looking: no answer within 0\.1 s$'):
        tpu._within(0.1, lambda: time.sleep(5), 'looking')
    assert tpu._within(5, lambda: None, 'looking') is None


@pytest.mark.parametrize(
    ('arguments', 'want_text'),
    [({'use_tpu': 1}, 'tpu.use_tpu: expected True or False, found 1'), ({'tpu': 3}, 'tpu.tpu: expected a text')],
)
def test_what_cannot_be_bound(arguments, want_text):
    with pytest.raises(UserError, match=want_text):
        tpu.tpu(**arguments)
