"""Runs an unmodified program as Python would have run it, with `tf.estimator` and the names that have moved since.

python -m estimator_trainer.compat [--tf1] script.py [argument ...]
python -m estimator_trainer.compat [--tf1] -m module [argument ...]
python -m estimator_trainer.compat --doctor

  --tf1     the program was written for TensorFlow 1: it sees the v1 API, has v2 behaviour off and gets the part of
            tf.contrib that Estimator programs used
  --doctor  report what is installed, what is bridged and what is known to break
"""

import builtins
import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import NamedTuple

from estimator_trainer import compat
from estimator_trainer.compat import bridge, views
from estimator_trainer.errors import UserError


class Command(NamedTuple):
    """A parsed command line."""

    option: str
    """`--tf1`, `--doctor`, `--help` or none."""
    is_module: bool
    argv: list[str]
    """The program and its arguments."""


def parse(arguments: list[str]) -> Command:
    """Returns what the arguments ask for; those after the program are the program's.

    Raises:
        UserError: An option is unknown, or there is no program.
    """
    option, rest = '', list(arguments)
    if rest and rest[0] in ('--tf1', '--doctor', '--help'):
        option = rest.pop(0)
    is_module = rest[:1] == ['-m']
    argv = rest[is_module:]
    if option in ('--doctor', '--help'):
        return Command(option, False, [])
    if not argv or (argv[0].startswith('-') and not is_module):
        raise UserError(
            f'estimator_trainer.compat: {argv[0] if argv else "nothing"} found where the program is expected: '
            'give [--tf1] script.py or [--tf1] -m module, or --doctor'
        )
    return Command(option, is_module, argv)


def main() -> None:
    """Does what this process's command line asks for."""
    try:
        command = parse(sys.argv[1:])
        if command.option == '--help':
            print(__doc__)
            return
        if command.option == '--doctor':
            from estimator_trainer.compat import doctor

            sys.exit(doctor.main())
        _install(tf1=command.option == '--tf1')
        launch = (_module if command.is_module else _script)(command.argv[0])
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    sys.argv[:] = ['-m', *command.argv[1:]] if command.is_module else command.argv  # -m: until the module is found
    _new_main()
    try:
        launch()
    except BaseException:
        # Python goes on from here: it knows what to do about SystemExit and interrupts, and calls the program's hook.
        hook = sys.excepthook
        sys.excepthook = lambda kind, error, _: hook(kind, error, _without_our_frames(error, set()).__traceback__)
        raise


def _install(tf1: bool) -> None:
    compat.tf = bridge.install()
    if tf1:
        from estimator_trainer.compat import tf1 as level
    else:
        from estimator_trainer.compat import moved as level
    level.install()


def _module(name: str) -> Callable[[], None]:
    # What `python -m` itself calls: packages, errors and the tracebacks' first lines are Python's own.
    return lambda: runpy._run_module_as_main(name)


def _script(path: str) -> Callable[[], None]:
    """Returns what runs the script, which is read now: one that cannot be read is a mistake of the caller's."""
    if pkgutil.get_importer(path):  # a directory or an archive with a __main__
        _set_first_path(path)
        return lambda: runpy._run_module_as_main('__main__', alter_argv=False)
    full_path = os.path.join(os.getcwd(), path)  # as Python makes it: not normalised
    try:
        with io.open_code(full_path) as file:
            source = file.read()
    except OSError as error:
        raise UserError(f'estimator_trainer.compat: cannot open {path}: {error.strerror}') from None
    _set_first_path(os.path.dirname(os.path.realpath(path)))

    def launch() -> None:
        main = sys.modules['__main__']
        main.__file__ = full_path
        main.__loader__ = importlib.machinery.SourceFileLoader('__main__', full_path)
        exec(compile(source, full_path, 'exec', dont_inherit=True), vars(main))

    return launch


def _new_main() -> None:
    """Puts an empty `__main__` in the place of ours: what the program defines there can be found, and pickled."""
    main = sys.modules['__main__'] = ModuleType('__main__')
    vars(main).update(__builtins__=builtins, __cached__=None)


def _set_first_path(path: str) -> None:
    # sys.path[0] is the working directory now, put there by `-m`; under -P and -I Python puts nothing there.
    if not getattr(sys.flags, 'safe_path', sys.flags.isolated):
        sys.path[0] = path


_OURS = (__file__, views.__file__)


def _without_our_frames(error: BaseException | None, seen: set[int]) -> BaseException | None:
    """Takes the frames of runner and views out of an error's traceback, and out of those of its causes."""
    if error is None or id(error) in seen:
        return error
    seen.add(id(error))
    frames = []
    trace = error.__traceback__
    while trace:
        frames.append(trace)
        trace = trace.tb_next
    mains = [at for at, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == __file__]
    kept: TracebackType | None = None
    for frame in reversed(frames[mains[-1] + 1 if mains else 0 :]):
        if frame.tb_frame.f_code.co_filename not in _OURS:
            frame.tb_next, kept = kept, frame
    _without_our_frames(error.__cause__, seen)
    _without_our_frames(error.__context__, seen)
    return error.with_traceback(kept)
