#!/bin/sh
# Packs what was built into dist/: `dist.sh STATIC HANARE LIBRARY`, where STATIC is the command without any library (musl), and the
# other two are what install.sh takes.
#
#   dist/hanare                           the static command, for the Dockerfile
#   dist/hanare-VERSION-ARCH-linux.tar.gz the same with man pages and completions: unpack it anywhere
#   dist/hanare_VERSION_ARCH.deb          command, headers and libraries, where dpkg-deb is there
set -eu
static=$1 hanare=$2 library=$3
sources=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$sources/Cargo.toml" | head -n 1)
dist=${DIST:-$sources/dist}
name=hanare-$version-$(uname -m)-linux
rm -rf "$dist"
mkdir -p "$dist/$name/bin"

if command -v strip >/dev/null 2>&1; then strip -o "$dist/hanare" "$static"; else cp "$static" "$dist/hanare"; fi
cp "$dist/hanare" "$dist/$name/bin/"
"$sources/scripts/manual.sh" "$static" "$dist/$name"
cp "$sources/README.md" "$sources/CHANGELOG.md" "$sources"/LICENSE-* "$dist/$name/"
tar -C "$dist" --owner=0 --group=0 -czf "$dist/$name.tar.gz" "$name"
rm -r "${dist:?}/$name"

if ! command -v dpkg-deb >/dev/null 2>&1; then
    echo "dist: no dpkg-deb: no .deb is made" >&2
    exit 0
fi
arch=$(dpkg --print-architecture)
tree=$dist/deb
PREFIX=/usr DESTDIR=$tree "$sources/scripts/install.sh" "$hanare" "$library"
# Debug lines are for those who build; a package of a distribution has them apart.
find "$tree" -name .debug -prune -exec rm -r {} +
chmod 644 "$tree"/usr/lib/libhanare.so.*.*
gzip -9n "$tree"/usr/share/man/man1/*
doc=$tree/usr/share/doc/hanare
install -D -m 644 "$sources/README.md" "$doc/README.md"
gzip -9nc "$sources/CHANGELOG.md" >"$doc/changelog.gz"
{
    echo "Hanare $version, by its authors."
    echo "Licence: Apache-2.0 (/usr/share/common-licenses/Apache-2.0) or, at your choice, the following."
    echo
    cat "$sources/LICENSE-MIT"
} >"$doc/copyright"
chmod 644 "$doc"/*
install -d "$tree/DEBIAN"
echo "activate-noawait ldconfig" >"$tree/DEBIAN/triggers"
echo "libhanare ${version%%.*} hanare (>= $version)" >"$tree/DEBIAN/shlibs"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: hanare
Version: $version
Section: utils
Priority: optional
Architecture: $arch
Depends: libc6 (>= 2.34), libgcc-s1
Recommends: libucx0
Maintainer: The Hanare authors <hanare@localhost>
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Description: memory in addition to main memory
 One pool of RAM that many machines lend. Programs make named regions in it and
 reach them by vector commands that run where the bytes lie, or by plain loads
 and stores. This package has the command, the C headers and the libraries.
CONTROL
dpkg-deb --root-owner-group --build "$tree" "$dist/hanare_${version}_$arch.deb" >/dev/null
rm -r "$tree"
