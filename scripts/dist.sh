#!/bin/sh
# Packs what was built into dist/: `dist.sh STATIC HANARE LIBRARY`, where STATIC is the command without any library (musl), and the
# other two are what install.sh takes.
#
#   dist/hanare, dist/hanare-models       the static command and its models, for the Dockerfile
#   dist/hanare-VERSION-ARCH-linux.tar.gz the same with man pages and completions: unpack it anywhere
#   dist/hanare_VERSION_ARCH.deb          the command, where dpkg-deb is there
#   dist/libhanare0_VERSION_ARCH.deb      the library that programs load
#   dist/libhanare-dev_VERSION_ARCH.deb   what programs are built with
#
# HANARE_MAINTAINER ("Name <address>") is whom the packages name.
set -eu
static=$1 hanare=$2 library=$3
sources=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$sources/Cargo.toml" | head -n 1)
dist=${DIST:-$sources/dist}
name=hanare-$version-$(uname -m)-linux
rm -rf "$dist"
mkdir -p "$dist/$name/bin"

for program in "$static" "$(dirname "$static")/hanare-models"; do
    if command -v strip >/dev/null 2>&1; then strip -o "$dist/$(basename "$program")" "$program"; else cp "$program" "$dist/"; fi
done
cp "$dist/hanare" "$dist/hanare-models" "$dist/$name/bin/"
"$sources/scripts/manual.sh" "$static" "$dist/$name"
cp "$sources/README.md" "$sources/CHANGELOG.md" "$sources"/LICENSE-* "$dist/$name/"
tar -C "$dist" --owner=0 --group=0 -czf "$dist/$name.tar.gz" "$name"
rm -r "${dist:?}/$name"

if ! command -v dpkg-deb >/dev/null 2>&1; then
    echo "dist: no dpkg-deb: no .deb is made" >&2
    exit 0
fi
arch=$(dpkg --print-architecture)
library_package=libhanare${version%%.*}
maintainer=${HANARE_MAINTAINER:-"The Hanare authors <hanare@maintainers.example>"}
tree=$dist/tree
PREFIX=/usr DESTDIR=$tree "$sources/scripts/install.sh" "$hanare" "$library"
# Debug lines are for those who build; a package of a distribution has them apart.
find "$tree" -name .debug -prune -exec rm -r {} +
find "$tree" -name '*.so*' -type f -exec chmod 644 {} +
gzip -9n "$tree"/usr/share/man/man1/*

# take PACKAGE PATH...: the paths below usr/ become that package's.
take() {
    package=$dist/deb/$1
    shift
    for path in "$@"; do
        [ -e "$tree/usr/$path" ] || [ -L "$tree/usr/$path" ] || continue
        mkdir -p "$package/usr/$(dirname "$path")"
        mv "$tree/usr/$path" "$package/usr/$path"
    done
}

# pack PACKAGE SECTION "FIELDS": its documents and control file, then the package. Its description comes by standard input.
pack() {
    package=$dist/deb/$1
    doc=$package/usr/share/doc/$1
    mkdir -p "$doc" "$package/DEBIAN"
    [ "$1" != hanare ] || install -m 644 "$sources/README.md" "$sources/CHANGELOG.md" "$doc/"
    printf 'hanare (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of package hanare.\n\n -- %s  %s\n' \
        "$version" "$maintainer" "$(date -R -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$sources/CHANGELOG.md")}")" | gzip -9nc >"$doc/changelog.gz"
    {
        echo "Hanare $version, by its authors. Copyright: the Hanare authors."
        echo "Licence: Apache-2.0 (/usr/share/common-licenses/Apache-2.0) or, at your choice, the following."
        echo
        cat "$sources/LICENSE-MIT"
    } >"$doc/copyright"
    {
        echo "Package: $1"
        echo "Source: hanare"
        echo "Version: $version"
        echo "Section: $2"
        echo "Priority: optional"
        echo "Architecture: $arch"
        printf '%s\n' "$3"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(du -sk "$package/usr" | cut -f 1)"
        cat
    } | sed '/^Source: \(.*\)$/{/^Source: '"$1"'$/d}' >"$package/DEBIAN/control"
    find "$package/usr" -type f -exec md5sum {} + | sed "s|$package/||" >"$package/DEBIAN/md5sums"
    chmod 644 "$doc"/* "$package"/DEBIAN/*
    find "$package" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group --build "$package" "$dist/$1_${version}_$arch.deb" >/dev/null
    rm -r "$package"
}

# Where compilers for this architecture look, and those for others do not.
mkdir -p "$tree/usr/lib/$(uname -m)-linux-gnu"
mv "$tree/usr/lib/pkgconfig" "$tree/usr/lib/$(uname -m)-linux-gnu/"

needs="libc6 (>= 2.34), libgcc-s1"
take hanare bin share lib/nbdkit lib/hanare
take "$library_package" "lib/libhanare.so.$version" "lib/libhanare.so.${version%%.*}"
take libhanare-dev include lib
mkdir -p "$dist/deb/$library_package/DEBIAN"
echo "activate-noawait ldconfig" >"$dist/deb/$library_package/DEBIAN/triggers"
echo "libhanare ${version%%.*} $library_package (>= $version)" >"$dist/deb/$library_package/DEBIAN/shlibs"
pack hanare utils "Depends: $needs
Recommends: libucx0" <<DESCRIPTION
Description: memory in addition to main memory
 One pool of RAM that many machines lend. Programs make named regions in it and
 reach them by vector commands that run where the bytes lie, or by plain loads
 and stores. This package has the command, which is also the node.
DESCRIPTION
pack "$library_package" libs "Depends: $needs
Recommends: libucx0" <<DESCRIPTION
Description: memory in addition to main memory - library
 One pool of RAM that many machines lend. Programs make named regions in it and
 reach them by vector commands that run where the bytes lie, or by plain loads
 and stores. This package has the library that such programs load.
DESCRIPTION
pack libhanare-dev libdevel "Depends: $library_package (= $version)
Suggests: hanare (= $version)" <<DESCRIPTION
Description: memory in addition to main memory - development files
 One pool of RAM that many machines lend. Programs make named regions in it and
 reach them by vector commands that run where the bytes lie, or by plain loads
 and stores. This package has the headers and what programs are linked with.
DESCRIPTION
rm -r "$tree" "$dist/deb"
