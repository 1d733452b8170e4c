"""Runs the program on changed input files, and compares what came of it with what a table wants."""

import dataclasses
import pathlib
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests import program

ERROR = 'estimator_trainer: error: '
LOOKING = 'estimator_trainer: a record of the input cannot be read: looking for it, for at most 300 s'
LATE = 'trainer.input_check_secs = 0.0'  # only the first record is looked at before training
_MODULE = pathlib.Path(__file__).with_name('mutation_module.py')


@dataclasses.dataclass(frozen=True)
class Case:
    """A change, and what is to come of it.

    Attributes:
        change: given the content of the first file, returns the new one, or None for no such file; or, given the folder
            of the files, does something there and returns nothing.
        want_code: exit code.
        want: where want_code is 0, the number of examples trained on; else the error, or its beginning before '...'.
            `@` stands for the folder of the files.
        statements: further gin statements; `@` as above.
        want_said: what else is said on stdout or stderr.
        arguments: further arguments.
    """

    change: Callable[[Any], bytes | None]
    want_code: int
    want: int | str
    statements: Sequence[str] = ()
    want_said: Sequence[str] = ()
    arguments: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Table:
    """The cases of one format.

    Attributes:
        config: gin statements.
        files: name -> content, of good input.
        statements: further ones; `@` stands for the folder of the files.
        cases: name -> case.
    """

    config: str
    statements: Sequence[str]
    files: Mapping[str, bytes]
    cases: Mapping[str, Case]

    def run(self, cwd: pathlib.Path, wrapper: Sequence[str] = ()) -> dict[str, program.Result]:
        """Runs all cases, each with a folder and a model_dir of its own."""
        shutil.copy(_MODULE, cwd)
        (cwd / 'case.gin').write_text(f'import mutation_module\n{self.config}')
        commands = {}
        for name, case in self.cases.items():
            folder = cwd / folder_of(name)
            for file, content in self.files.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            _change(folder, next(iter(self.files)), case.change)
            statements = [it.replace('@', folder_of(name)) for it in (*self.statements, *case.statements)]
            commands[name] = [
                '--gin_file=case.gin',
                '--mode=train',
                f'--model_dir={folder_of(name)}_model',
                *program.bind(*statements),
                *case.arguments,
            ]
        return program.run_forked(commands, cwd, wrapper=wrapper)

    def check(self, cwd: pathlib.Path, name: str, result: program.Result) -> None:
        """Compares what a case has left with what is wanted."""
        case = self.cases[name]
        lines = result.check(case.want_code).err.splitlines()
        assert 'Traceback' not in result.err
        for said in case.want_said:
            assert said.replace('@', folder_of(name)) in result.out + result.err
        model_dir = cwd / f'{folder_of(name)}_model'
        if not case.want_code:
            assert [line for line in lines if 'WARNING: skipped' not in line] == []
            assert program.summary(model_dir)['examples'] == case.want
            return
        error = ERROR + case.want.replace('@', folder_of(name))
        assert lines[-1] == error if not error.endswith('...') else lines[-1].startswith(error[:-3])
        assert [line for line in lines[:-1] if 'WARNING: skipped' not in line] in ([], [LOOKING])
        if case.want_code == 2:
            assert len(lines) == 1
            assert not model_dir.exists()
        else:
            assert program.summary(model_dir)['status'] == 'failed'


def folder_of(name: str) -> str:
    """Returns the folder of a case's files."""
    return re.sub(r'\W+', '_', name)


def late(cases: Mapping[str, Case], *names: str) -> dict[str, Case]:
    """Returns cases again, whose bad record shows only when it is read: exit code 1."""
    return {
        f'{name} late': dataclasses.replace(
            cases[name], want_code=1, statements=[*cases[name].statements, LATE]
        )
        for name in names
    }


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    """Returns a change that puts `new` in the place of `old`, which must be there once."""

    def change(content: bytes) -> bytes:
        assert content.count(old.encode()) == 1
        return content.replace(old.encode(), new.encode(errors='surrogateescape'))

    return change


def same(content: bytes) -> bytes:
    """Changes nothing."""
    return content


def _change(folder: pathlib.Path, file: str, change: Callable) -> None:
    path = folder / file
    if 'folder' in change.__code__.co_varnames[: change.__code__.co_argcount]:
        change(folder)
    elif (content := change(path.read_bytes())) is None:
        path.unlink()
    else:
        path.write_bytes(content)
