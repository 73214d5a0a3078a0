#!/bin/sh
# The Python face: `python.sh test` builds the wheel with Cargo's profile for development, installs it into an environment of its own under
# target/ and runs the tests there; `python.sh wheel` builds the wheel that is given out, into dist/.
set -eu
cd "$(dirname "$0")/.."
purpose=${1:-test}
here=$PWD
folder=$here/target/python
venv=$folder/venv
target=${CARGO_TARGET_DIR:-$here/target}
requirements=crates/python/requirements.txt

python=
for name in python3 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$name
        break
    fi
done

# skip REASON: where every test has to run, one that does not has failed.
skip() {
    echo "python: the Python face is not tested: $*" >&2
    [ -z "${CI:-}" ] && exit 0
    exit 1
}

[ -n "$python" ] || skip "no Python 3.11 or newer that makes environments; install python3 and python3-venv"

# The environment is made anew when what belongs into it has changed.
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements" || skip "its tests' packages cannot be had"
    cp "$requirements" "$venv/requirements.txt"
fi
PATH=$venv/bin:$PATH
export PATH

case $purpose in
test)
    # The tests of the command have built it.
    if [ -x "$target/debug/hanare" ] && [ -x "$target/debug/hanare-models" ]; then
        HANARE_BINARY=$target/debug/hanare
        export HANARE_BINARY
    fi
    rm -rf "$folder/wheels"
    HANARE_PROFILE=dev pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$folder/wheels" .
    pip install -q --disable-pip-version-check --force-reinstall --no-deps "$folder"/wheels/hanare-*.whl
    exec python -m pytest crates/python/tests
    ;;
wheel)
    exec pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w dist .
    ;;
*)
    echo "python.sh: test or wheel, not '$purpose'" >&2
    exit 2
    ;;
esac
