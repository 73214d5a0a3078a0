#!/bin/sh
# Makes sure of what building, testing, checking, measuring or packing needs: `prepare.sh build|test|check|nightly|bench|dist`.
# As root on a system with apt it installs what is missing; otherwise it names the packages. Only what nothing works
# without (a Rust toolchain, a C compiler) ends it with an error; the rest is skipped later, by name.
set -u
purpose=${1:-build}
oldest=91 # of Rust 1.x, as in Cargo.toml
refreshed=

say() { echo "prepare: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }
may_install() { [ "$(id -u)" = 0 ] && has apt-get; }

install() {
    if [ -z "$refreshed" ]; then
        apt-get update -qq >&2 || return 1
        refreshed=1
    fi
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# want COMMAND WHAT-FOR PACKAGE...: installs the packages where the command is missing, or names them.
want() {
    command=$1 purpose_of=$2
    shift 2
    has "$command" && return 0
    if may_install && install "$@" && has "$command"; then return 0; fi
    say "no $command: $purpose_of is skipped; install $*"
    return 1
}

# compiles COMMAND...: whether the compiler with these words makes a program of nothing but main.
compiles() { echo 'int main(void){return 0;}' | "$@" -x c - -o /dev/null 2>/dev/null; }

# want_working "COMPILER WORDS" WHAT-FOR PACKAGE...: as want, where the compiler must find what the words name.
want_working() {
    words=$1 purpose_of=$2
    shift 2
    # The words are several.
    compiles $words && return 0
    if may_install && install "$@" && compiles $words; then return 0; fi
    say "${words%% *} compiles nothing here: $purpose_of is skipped; install $*"
    return 1
}

cargo_minor() { cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p'; }
is_new_enough() { minor=$(cargo_minor) && [ -n "$minor" ] && [ "$minor" -ge "$oldest" ]; }

# packaged: the distribution's packages that bring a new enough Rust, if it has them.
# Debian 12 has no rustup, and keeps a newer compiler for its browsers (-web) beside the old one.
packaged() {
    has apt-cache || return 1
    if apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        echo rustup
        return 0
    fi
    for name in -web ""; do
        minor=$(apt-cache policy "cargo$name" 2>/dev/null | sed -n 's/^ *Candidate: 1\.\([0-9]*\)\..*/\1/p')
        if [ -n "$minor" ] && [ "$minor" -ge "$oldest" ]; then
            echo "rustc$name cargo$name"
            return 0
        fi
    done
    return 1
}

toolchain() {
    is_new_enough && return 0
    if may_install; then
        apt-get update -qq >&2 && refreshed=1
        # Two words where there are two packages.
        packages=$(packaged) && install $packages
        has rustup && rustup toolchain install stable --profile minimal >&2
        is_new_enough && return 0
    fi
    say "no Rust 1.$oldest or newer: install $(packaged || echo "it as https://rustup.rs says"), then run this again"
    return 1
}

toolchain || exit 1
want cc "everything" gcc libc6-dev || exit 1
case $purpose in
build) ;;
test)
    want c++ "the C face under C++" g++
    want clang "the C face under clang" clang
    want gfortran "the Fortran module" gfortran
    want pkg-config "the pkg-config file's test" pkg-config
    want script "the test of output on a terminal" bsdutils
    want mpirun.openmpi "the test of ranks under Open MPI" openmpi-bin
    want mpirun.mpich "the test of ranks under MPICH" mpich
    want ssh "the test of hosts behind ssh" openssh-client
    want fusermount3 "tests of mounts by ordinary users" fuse3
    want nbdkit "tests of disks" nbdkit
    want nbdcopy "tests of disks" libnbd-bin
    want qemu-img "a test of disks" qemu-utils
    PATH=$PATH:/usr/sbin:/sbin want mkfs.ext4 "a test of disks" e2fsprogs
    PATH=$PATH:/usr/sbin:/sbin want ip "tests of hosts whose packets are lost" iproute2
    PATH=$PATH:/usr/sbin want sshd "the test of hosts behind ssh" openssh-server
    # The judge of histories has one module, which go.sum pins. A first build without a network needs it here.
    want go "the judge of regions with copies" golang-go &&
        { (cd crates/hanare/tests/judged/porcupine && go mod download) >&2 || say "the judge's module cannot be reached: its tests are skipped"; }
    # The clients of Redis in Go, Node and Java. Their tests fetch the last two.
    has go &&
        { (cd crates/resp/tests/clients/go-redis && go mod download) >&2 || say "go-redis cannot be reached: its test is skipped"; }
    want npm "the test of ioredis" nodejs npm
    want javac "the test of jedis" default-jdk-headless
    want mvn "the test of jedis" maven
    # Building it takes minutes, and one test asks for it.
    has helm || [ -x "${HOME:-}/go/bin/helm" ] ||
        say "no helm: the test of the chart is skipped; go install helm.sh/helm/v3/cmd/helm@v3.22.0"
    want python3 "the Python face" python3 python3-venv
    # Debian has what makes environments in a package of its own.
    python3 -c 'import ensurepip' 2>/dev/null || { may_install && install python3-venv; } ||
        say "python3 makes no environments: the Python face is skipped; install python3-venv"
    ;;
check)
    for part in rustfmt clippy; do
        cargo "$(echo $part | sed s/rust//)" --version >/dev/null 2>&1 || { has rustup && rustup component add $part >&2; } ||
            say "no $part: install it (rustup component add $part)"
    done
    ;;
nightly)
    if has rustup; then
        rustup toolchain install nightly --profile minimal --component miri --component rust-src >&2
        rustup toolchain install "1.$oldest.0" --profile minimal >&2
    else
        say "no rustup: sanitizers and the oldest Rust are left out"
    fi
    ;;
bench)
    # A compiler's name tells nothing of its headers: MPICH's and Open MPI's packages bring one without the other.
    want_working "mpicc.openmpi -include mpi.h" "the comparison with Open MPI" openmpi-bin libopenmpi-dev
    want_working "mpicc.mpich -include mpi.h" "the comparison with MPICH" mpich libmpich-dev
    want redis-server "the comparison with Redis" redis-server
    want sshfs "the comparison with sshfs" sshfs openssh-server
    PATH=$PATH:/usr/sbin want smbd "the comparison with samba" samba smbclient
    PATH=$PATH:/usr/sbin want ganesha.nfsd "the comparison with nfs-ganesha" nfs-ganesha nfs-ganesha-vfs rpcbind iproute2
    want_working "cc -include sys/time.h -include nfsc/libnfs.h" "the comparison with nfs-ganesha" libnfs-dev
    want clang "the comparison with iceoryx2" clang libclang-dev
    cargo build -q --release --manifest-path bench/peers/iceoryx2_queue/Cargo.toml >&2 ||
        say "iceoryx2 does not build: the comparison with it is skipped"
    want pkg-config "the comparison with UCX" pkg-config
    if has pkg-config && ! pkg-config --exists ucx; then
        may_install && install libucx-dev || say "no UCX: the comparison with it is skipped; install libucx-dev"
    fi
    ;;
dist)
    target=$(uname -m)-unknown-linux-musl
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
        has rustup && rustup target add "$target" >&2
        [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || {
            say "Rust cannot build for $target: install its standard library (rustup target add $target)"
            exit 1
        }
    fi
    ;;
*)
    say "build, test, check, nightly, bench or dist, not '$purpose'"
    exit 2
    ;;
esac
exit 0
