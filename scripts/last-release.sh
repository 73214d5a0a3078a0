#!/bin/sh
# Builds the command of the release before, from this repository's own history, and prints its path: tests run it beside today's (HANARE_TEST_LAST).
# The release is the newest tag v* but that of today's version; before the first tag, the commit in scripts/last-release.
# It stays in target/last-release/COMMIT, and is built once.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tag=$(git tag --list 'v*' --merged HEAD --sort=-version:refname | grep -vx "v$version" | head -n 1 || true)
commit=$(git rev-parse --verify --quiet "${tag:-$(cat scripts/last-release)}^{commit}") || {
    echo "last-release.sh: the history here has no ${tag:-$(cat scripts/last-release)}: fetch it whole (git fetch --unshallow --tags)" >&2
    exit 1
}
folder=$PWD/target/last-release/$commit
if [ ! -x "$folder/release/hanare" ]; then
    tree=$(mktemp -d)
    trap 'git worktree remove --force "$tree" >/dev/null 2>&1 || rm -rf "$tree"' EXIT
    git worktree add --quiet --detach "$tree" "$commit"
    (cd "$tree" && "${CARGO:-cargo}" build --quiet --locked --release --target-dir "$folder" -p hanare-cli) >&2
fi
echo "$folder/release/hanare"
