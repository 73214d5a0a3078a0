#!/bin/sh
# Checks that what stands here can be released: `release.sh [PART...]`, all parts where none is named. Nothing is published.
#
#   tree       everything is committed, and no tag has this version
#   versions   one version in the workspace and between its crates
#   changelog  CHANGELOG.md begins with this version and its day
#   check      formatting, lints, documentation (`make check`) and licences (`make deny`)
#   crates     what `cargo publish` would send builds by itself; without a network the packages are made and not built
#   wheel      the Python package, installed into an empty environment, reads back a byte that it put
#   dist       the static command, the archive and the packages for Debian (`make dist`), each of this version
#   test       `make test`
#
# A line a part, and its output in target/release-check/PART.log. A part whose tools are missing has failed: a release has all.
set -u
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
folder=$PWD/target/release-check
cargo=${CARGO:-cargo}

# need COMMAND...: whether all are there; says which is not.
need() {
    for command in "$@"; do
        command -v "$command" >/dev/null 2>&1 || { echo "no $command"; return 1; }
    done
}

# same WHAT FOUND: whether a version is this one.
same() {
    [ "$2" = "$version" ] || { echo "$1 is of version '$2', the workspace of $version"; return 1; }
}

tree() {
    [ -z "$(git status --porcelain)" ] || { git status --short; return 1; }
    ! git rev-parse -q --verify "refs/tags/v$version" || { echo "v$version is tagged already"; return 1; }
}

versions() {
    wrong=$("$cargo" metadata --no-deps --offline --format-version 1 | tr '{' '\n' | sed -n 's/.*"name":"\(hanare[a-z-]*\)","version":"\([^"]*\)".*/\1 \2/p' |
        awk -v version="$version" '$2 != version')
    [ -z "$wrong" ] || { echo "$wrong"; return 1; }
    between=$(sed -n 's/^hanare[a-z-]* = .*version = "\([^"]*\)".*/\1/p' Cargo.toml | sort -u)
    same "what crates ask of each other" "$between"
}

changelog() {
    head=$(sed -n 's/^## \(.*\)/\1/p' CHANGELOG.md | head -n 1)
    case $head in
    "$version ("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]")") ;;
    *) echo "CHANGELOG.md begins with '$head', not with '$version (YEAR-MONTH-DAY)'"; return 1 ;;
    esac
}

check() {
    need rustfmt cargo-clippy cargo-deny && make --no-print-directory check deny
}

crates() {
    # Those that go out: `cargo publish` leaves the others by itself, `cargo package` does not.
    apart=$("$cargo" metadata --no-deps --offline --format-version 1 | tr '{' '\n' |
        sed -n 's/.*"name":"\(hanare[a-z-]*\)".*/\1/p' | sort -u | while read -r name; do
        grep -lq '^publish = false' crates/*/Cargo.toml && grep -l "^name = \"$name\"" $(grep -l '^publish = false' crates/*/Cargo.toml) >/dev/null && echo "--exclude $name"
    done)
    if "$cargo" info --color never serde 2>/dev/null | grep -q "^serde"; then
        "$cargo" publish --dry-run --workspace $apart
    else
        echo "no registry: packages are made and not built"
        "$cargo" package --workspace $apart --offline --no-verify
    fi
}

wheel() {
    need python3 && scripts/python.sh wheel || return 1
    python3 -m venv --clear "$folder/venv" && "$folder/venv/bin/pip" install -q --disable-pip-version-check dist/hanare-"$version"-*.whl || return 1
    # It starts nodes by the command that the wheel brings.
    program='import hanare; pool = hanare.connect(nodes=2, memory="64MiB"); a = pool.zeros(4, name="a"); a[1] = 7; print(int(a[1]))'
    told=$(cd / && "$folder/venv/bin/python" -c "$program") || return 1
    [ "$told" = 7 ] || { echo "$told"; return 1; }
    same "the wheel's command" "$("$folder/venv/bin/hanare" --version | cut -d' ' -f 2)"
}

dist() {
    need dpkg-deb tar && make --no-print-directory dist || return 1
    same "dist/hanare" "$(dist/hanare --version | cut -d' ' -f 2)" || return 1
    ! ldd dist/hanare 2>/dev/null | grep -q '=>' || { echo "dist/hanare needs libraries"; return 1; }
    dist/hanare model >/dev/null || return 1
    for package in dist/*.deb; do
        same "$package" "$(dpkg-deb -f "$package" Version)" || return 1
    done
    [ "$(ls dist/*.deb | wc -l)" = 3 ] && [ -f "dist/hanare-$version-$(uname -m)-linux.tar.gz" ]
}

test_all() { make --no-print-directory test; }

mkdir -p "$folder"
failed=0
[ $# -gt 0 ] || set -- tree versions changelog check crates wheel dist test
for part in "$@"; do
    case $part in
    tree | versions | changelog | check | crates | wheel | dist) run=$part ;;
    test) run=test_all ;;
    *) echo "release.sh: no part '$part'" >&2 && exit 2 ;;
    esac
    if "$run" >"$folder/$part.log" 2>&1; then
        echo "ok      $part"
    else
        failed=1
        echo "FAILED  $part: $(tail -n 1 "$folder/$part.log") ($folder/$part.log)"
    fi
done
[ "$failed" = 0 ] && echo "hanare $version can be released: git tag v$version"
exit $failed
