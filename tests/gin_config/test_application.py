"""What gin makes of a configuration, and one-line errors for what it has against it."""

import gin
import pytest

from estimator_trainer.settings import trainer
from tests.gin_config.helpers import apply, error_of, inner, plain, write


def test_the_last_one_wins_and_flags_come_last(directory):
    write(directory / 'a.gin', 'trainer.grace_period = 1\ntrainer.peer_timeout = 11\ntrainer.startup_timeout = 1')
    write(directory / 'b.gin', 'trainer.peer_timeout = 12\ntrainer.startup_timeout = 2')
    params = ['trainer.startup_timeout = 3', 'trainer.startup_timeout = 4\ntrainer.throttle_secs = 4']
    overrides = {'trainer.throttle_secs': ('--throttle', 5)}
    apply(*params, gin_files=['a.gin', 'b.gin'], overrides=overrides)
    settings = trainer()
    assert (settings.grace_period, settings.peer_timeout, settings.startup_timeout) == (1, 12, 4)
    assert settings.throttle_secs == 5


def test_references_macros_and_constants_reach_the_function():
    apply(
        """
        plain:
            size = [@a/inner(), {'m': (%deep, %ANSWER), %key: @inner}]
        a/inner.x = %gin_config_test.ANSWER
        deep = [%deeper, -1]
        deeper = 'd'
        key = 'k'
        """
    )
    (size, _) = plain()
    assert size == [(42, 2, {}), {'m': (['d', -1], 42), 'k': inner}]


@pytest.mark.parametrize(
    ('text', 'want_message'),
    [
        ('trainr.grace_period = 1', "my.gin:3: trainr.grace_period = 1: No configurable matching 'trainr'; did you"),
        ('trainr:\n  grace_period = 1', "my.gin:3: trainr:: No configurable matching 'trainr'; did you mean 'trainer'"),
        ('trainer.grace_perod = 1', "did you mean 'grace_period'"),
        ('plain.zzz = 1', '; it has size, depth'),
        ('plain.size = @neddy()', "No configurable matching reference '@neddy()'; did you mean 'needy'"),
        ('plain.size = {1: [@neddy]}', "No configurable matching reference '@neddy'; did you mean 'needy'"),
        ('plain.size = @zzzzzzzz', 'add `import <module>` at the top of the gin file'),
        ('plain.size = [1, %SIZ]\nSIZE = 1', "plain.size = [1, %SIZ]: macro %SIZ is not defined; did you mean 'SIZE'"),
        ('plain.size = %LR', 'plain.size = %LR: macro %LR is not defined'),
        ('plain.size = {1: {2: (%LR,)}}', 'plain.size = {1: {2: (%LR,)}}: macro %LR is not defined'),
        ('plain.size = {%LR: 1}', 'plain.size = {%LR: 1}: macro %LR is not defined'),
        ('MACRO = [%LR]\nplain.size = %MACRO', 'MACRO = [%LR]: macro %LR is not defined'),
        ('plain.size = @LR/macro()', 'plain.size = %LR: macro %LR is not defined'),
        ('plain.size = %ANSWR', "macro %ANSWR is not defined; did you mean 'ANSWER'"),
        ('ANSWER = 1\nplain.size = %ANSWER', 'ANSWER = 1: %ANSWER is a constant of the code already'),
        ('a = %a\nplain.size = %a', 'a = %a: macro %a leads back to itself'),
        ('a = [%b]\nb = {1: %a}', 'a = [%b]: macro %a leads back to itself'),
        ('HandsOn.nam = 1', "doesn't have a parameter named 'nam'; did you mean 'name'"),
        ('HandsOnTwice.nam = 1', "doesn't have a parameter named 'nam'; did you mean 'name'"),
        ('partial_plain.siz = 1', "doesn't have a parameter named 'siz'; did you mean 'size'"),
        ('plain.size = %gin.REQUIRED', 'my.gin:3: plain.size set to `%gin.REQUIRED` but not subsequently overridden'),
        ('import nowhere', "my.gin:3: import nowhere: No module named 'nowhere'"),
    ],
)
@pytest.mark.parametrize('included', [False, True])
def test_unknown_names_are_one_line_with_their_place(directory, text, want_message, included):
    write(directory / 'my.gin', f'\n\n{text}')
    write(directory / 'other.gin', "include 'my.gin'")
    message = error_of(apply, gin_files=['other.gin' if included else 'my.gin'])
    assert message.startswith('my.gin:3: ')
    assert want_message in message


def test_what_matches_several_configurables_is_told_with_their_names(directory):
    for module in ('one', 'two'):
        gin.external_configurable(lambda size: size, name='twin', module=f'gin_config_test.{module}')
    for text in ('twin.size = 1', 'plain.size = @twin'):
        message = error_of(apply, text)
        assert message.startswith(f"--gin_param #1: {text}: Ambiguous selector 'twin'")
        assert 'gin_config_test.one.twin' in message


@pytest.mark.parametrize('text', ['Keeper.anything = 1', 'inner.anything = 1', 'Pops.size = 1'])
def test_any_name_is_taken_where_nothing_is_known(text):
    assert len(apply(text)) == 1


def test_a_macro_that_is_not_defined_matters_only_where_it_wins():
    apply('plain.size = %LR', 'plain.size = 1')
    assert plain() == (1, 1)


def test_unknown_binding_of_a_flag_names_the_flag():
    message = error_of(apply, overrides={'trainr.grace_period': ('--grace', 1)})
    assert message.startswith("--grace: No configurable matching 'trainr'; did you mean 'trainer'")


def test_a_file_is_not_read_again(directory):
    write(directory / 'base.gin', 'plain.size = 1')
    write(directory / 'my.gin', "include 'base.gin'")
    from tests.gin_config.helpers import gin_config, read

    config = read(gin_files=['my.gin'])
    (directory / 'base.gin').unlink()
    gin_config.apply(config, {})
    assert plain() == (1, 1)


def test_names_of_python_hold_for_the_file_that_asks_for_them(directory):
    write(directory / 'dynamic_user.py', 'def f(x=1):\n  return x\n')
    write(directory / 'dynamic.gin', 'from __gin__ import dynamic_registration\nimport dynamic_user as u\nu.f.x = 7\n')
    write(directory / 'my.gin', "include 'dynamic.gin'\nplain.size = @u.f()")
    apply(gin_files=['my.gin'])
    assert plain() == (7, 1)
    gin.clear_config()
    write(directory / 'dynamic.gin', 'from __gin__ import dynamic_registration\nimport dynamic_user as u\nv.f.x = 7\n')
    message = error_of(apply, gin_files=['dynamic.gin'])
    assert message == "dynamic.gin:3: v.f.x = 7: 'v' was not provided by an import statement"
