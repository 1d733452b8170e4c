#!/usr/bin/env bash
# The main job and the compat tests on every TensorFlow supported, each in a fresh environment installed as README says,
# and its numbers, checkpoints and SavedModels against those of TensorFlow 2.15 (tests/compat/test_crossing.py). Needs
# Python 3.10 to 3.13 and PyPI. Prints a table; exits 0 only if everything passed.
#
#     tests/matrix.sh [--quick] [--directory=DIR] [VERSION...]
#
# VERSION is 2.15 to 2.21, or `install`: whether plain `pip install .` works on each Python. Default: all of them.
# Environments are made in DIR and stay there for the next time, else in a temporary directory and removed after use.
# --quick leaves out the turns that a TensorFlow and 2.15 take at training; what both have recorded is read all the same.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
unset PYTHONPATH  # else the tests could import the checkout, not what pip installed
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PROGRESS_BAR=off TF_CPP_MIN_LOG_LEVEL=3
# -vv: pyproject.toml has a -q, and a run that is out of time has named only the tests that it has begun.
export PYTEST_ADDOPTS="-vv -ra -n 2 --dist loadfile -p no:cacheprovider"

# TensorFlow, and the minor version of a Python 3 that it has wheels for: all four Pythons get their turn.
declare -A pythons=([2.15]=11 [2.16]=12 [2.17]=10 [2.18]=11 [2.19]=12 [2.20]=13 [2.21]=13)
# Python 3's minor version, and what is given to pip beside the project.
plain_installs=('10' '11' '12' '13' '10 tensorflow==2.15.*' '11 tensorflow==2.15.*')

directory= quick=
if [ "${1:-}" = --quick ]; then
    quick=yes && shift
fi
case ${1:-} in
--directory=*) directory=${1#*=} && shift ;;
esac
[ $# -gt 0 ] || set -- 2.15 2.16 2.17 2.18 2.19 2.20 2.21 install
work=$(mktemp -d "${TMPDIR:-/tmp}/estimator_trainer_matrix.XXXXXX") || exit 1
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
environments=${directory:-$work}
mkdir -p "$environments" && environments=$(cd "$environments" && pwd) || exit 1
failures=()

say() { printf 'matrix: %s\n' "$*"; }

# step NAME SECONDS COMMAND... runs a command with a time-out, its output in a file that is shown where it fails.
step() {
    local name=$1 seconds=$2 began=$SECONDS status
    shift 2
    timeout -k 30 "$seconds" "$@" </dev/null >"$work/$name.log" 2>&1 &
    wait $!  # in the background, else a signal would be heeded only when the command ends
    status=$?
    say "$name: exit $status, $((SECONDS - began)) s"
    if [ $status -ne 0 ]; then
        failures+=("$name: exit $status")  # 124 and 137: out of time
        tail -n 200 "$work/$name.log"
    fi
    return $status
}

# find_python MINOR prints a Python 3.MINOR that can make environments, from PATH or from pyenv. Each is tried: pyenv
# puts names on PATH that only say that the version is not selected.
find_python() {
    local python
    for python in $(type -ap "python3.$1") "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/"3.$1".*/bin/python; do
        if "$python" -c "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, $1))" 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# install DIRECTORY PYTHON REQUIREMENT... makes an environment where there is none, and installs a copy of the checkout:
# `pip install .` leaves a build folder.
install() {
    local venv=$1 python=$2 copy=$1.checkout
    shift 2
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || return 1
    rm -rf "$copy" && mkdir "$copy" || return 1
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read |
        tar --extract --directory="$copy" || return 1
    (cd "$copy" && "$venv/bin/pip" install "$@" && "$venv/bin/pip" check)
}
export -f install

# environment VERSION makes the environment of a TensorFlow, once.
environment() {
    local python
    [ ! -e "$work/$1.made" ] || return 0
    if ! python=$(find_python "${pythons[$1]}"); then
        failures+=("$1: there is no Python 3.${pythons[$1]}")
        return 1
    fi
    step "$1 install" 900 bash -c 'install "$@"' - "$environments/$1" "$python" '.[test]' "tensorflow==$1.*" || return 1
    touch "$work/$1.made"
}

# test_version VERSION adds its row to the table.
test_version() {
    local venv=$environments/$1 pair=''
    [ -n "$quick" ] || environment 2.15 || return 1
    environment "$1" || return 1
    step "$1 main job" 300 env -C "$work" "$venv/bin/python" -m estimator_trainer --gin_file=penguins.gin --model_dir="$work/$1.run"
    [ "$1" = 2.15 ] || [ -n "$quick" ] || pair="$environments/2.15/bin/python:$venv/bin/python"
    step "$1 tests" 1500 env -C "$venv.checkout" ESTIMATOR_TRAINER_PYTHONS="$pair" PATH="$venv/bin:$PATH" \
        "$venv/bin/pytest" tests/compat
    "$venv/bin/python" - "$work/$1.run/run/summary.json" "$work/$1 tests.log" >>"$work/rows" <<'END'
import importlib.metadata, json, pathlib, platform, re, sys

job, log = (pathlib.Path(path) for path in sys.argv[1:])
job = json.loads(job.read_text()) if job.exists() else {}
accuracy = [round(one['metrics']['accuracy'], 4) for one in job.get('evaluations', [])[-1:]]
closing = re.findall(r'^=+ (.* in [\d.]+s.*?) =*$', log.read_text(), re.MULTILINE)[-1:]
counts = [sum(map(int, re.findall(rf'(\d+) {kind}', ' '.join(closing)))) for kind in ('passed', '(?:failed|error)', 'skipped')]
versions = [importlib.metadata.version(name) for name in ('tensorflow', 'numpy')]
job_cells = [round(job['seconds'], 1) if job else 'failed', *(accuracy or ['-'])]
print('|', *[f'{cell} |' for cell in (versions[0], platform.python_version(), versions[1], *job_cells, *counts)])
END
    [ -n "$directory" ] || [ "$1" = 2.15 ] || rm -rf "$venv" "$venv.checkout"
}

# test_installs makes plain environments, one after the other in the same place.
test_installs() {
    local plain python minor requirement
    for plain in "${plain_installs[@]}"; do
        read -r minor requirement <<<"$plain"
        python=$(find_python "$minor") || { failures+=("install: there is no Python 3.$minor") && continue; }
        step "install 3.$plain" 900 bash -c 'install "$@"' - "$work/plain" "$python" . ${requirement:+"$requirement"} &&
            step "install 3.$plain runs" 300 env -C "$work" "$work/plain/bin/python" -m estimator_trainer \
                --gin_file=penguins.gin --model_dir="$work/plain.run" &&
            say "$("$work/plain/bin/pip" list 2>/dev/null | grep -E '^(tensorflow|tf_keras|numpy) ' | tr -s ' \n' ' ')"
        rm -rf "$work/plain" "$work/plain.run"
    done
}

for version in "$@"; do
    case $version in
    install) test_installs ;;
    *)
        if [ -z "${pythons[$version]:-}" ]; then
            say "$version found, 2.15 to 2.21 or install expected"
            exit 2
        fi
        test_version "$version"
        ;;
    esac
done

if [ -e "$work/rows" ]; then
    echo '| TensorFlow | Python | numpy | main job, s | accuracy | passed | failed | skipped |'
    echo '|---|---|---|---|---|---|---|---|'
    cat "$work/rows"
fi
for failure in "${failures[@]}"; do
    say "FAILED $failure"
done
[ ${#failures[@]} -eq 0 ]
