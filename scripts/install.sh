#!/bin/sh
# Installs what was built: `install.sh HANARE LIBRARY`, where HANARE is the command and LIBRARY.so and LIBRARY.a the libraries.
# PREFIX (/usr/local) is where it goes, DESTDIR what stands before that while it is packed.
#
# Programs are stripped; their debug lines lie beside them, in .debug/, where debuggers and backtraces look.
set -eu
hanare=$1 library=$2
prefix=${PREFIX:-/usr/local} root=${DESTDIR:-}
sources=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$sources/Cargo.toml" | head -n 1)
soname=libhanare.so.${version%%.*}
to=$root$prefix

# place FROM TO: a program or library, stripped, with its debug lines beside it.
place() {
    install -D -m 755 "$1" "$2"
    if ! command -v objcopy >/dev/null 2>&1; then
        echo "install: no objcopy (binutils): $2 keeps its debug lines inside" >&2
        return 0
    fi
    debug=$(dirname "$2")/.debug/$(basename "$2").debug
    mkdir -p "$(dirname "$debug")"
    objcopy --only-keep-debug "$1" "$debug"
    chmod 644 "$debug"
    objcopy --strip-unneeded --add-gnu-debuglink="$debug" "$2"
}

# Whether the system's loader looks into the folder by itself.
is_searched() { PATH=$PATH:/sbin:/usr/sbin ldconfig -vN 2>/dev/null | grep -q "^$1:"; }

rpath=
is_searched "$prefix/lib" || rpath=" -Wl,-rpath,\${libdir}"

place "$hanare" "$to/bin/hanare"
# The command starts it for `hanare model`, `hanare report` and `hanare what-if`.
place "$(dirname "$hanare")/hanare-models" "$to/lib/hanare/hanare-models"
install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$sources"/crates/capi/include/*.h "$to/include/"
place "$library.so" "$to/lib/libhanare.so.$version"
ln -sf "libhanare.so.$version" "$to/lib/$soname"
ln -sf "$soname" "$to/lib/libhanare.so"
# The command finds both there; nbdkit finds its own by itself where that is its folder of plugins.
plugin=$(dirname "$library.so")/libnbdkit_hanare_plugin.so
preload=$(dirname "$library.so")/libhanare_main_memory.so
if [ -f "$preload" ]; then place "$preload" "$to/lib/hanare/libhanare_main_memory.so"; fi
if [ -f "$plugin" ]; then place "$plugin" "$to/lib/nbdkit/plugins/nbdkit-hanare-plugin.so"; fi
install -m 644 "$library.a" "$to/lib/libhanare.a"
if command -v strip >/dev/null 2>&1; then strip --strip-debug "$to/lib/libhanare.a"; fi
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@RPATH@|$rpath|" "$sources/crates/capi/hanare.pc.in" \
    >"$to/lib/pkgconfig/hanare.pc"
"$sources/scripts/manual.sh" "$hanare" "$to"
# The loader finds a library in its own folders only after this.
if [ -z "$root" ] && [ -z "$rpath" ] && [ "$(id -u)" = 0 ]; then PATH=$PATH:/sbin:/usr/sbin ldconfig; fi
