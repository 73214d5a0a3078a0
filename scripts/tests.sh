#!/bin/sh
# Runs the tests, several test programs at a time: `tests.sh full [NAME...]` all of them, or those named;
# `tests.sh quick` the rules and one program of each face.
#
# Cargo builds all of them and names them; each then runs under a bound, with its output in target/tests/NAME.log. Those that took longest
# last time begin first. Programs that measure, or leave others no processor, run alone; the models, which no other build needs, come last.
# The end names each failure and each skip. TESTS_JOBS is how many run at a time, TESTS_BOUND_S how long one may take.
set -eu
cd "$(dirname "$0")/.."
own=$PWD/scripts/tests.sh
cargo=${CARGO:-cargo}
folder=${CARGO_TARGET_DIR:-$PWD/target}/tests
times=$folder/times
bound=${TESTS_BOUND_S:-1800}
alone=" cli.benches_run_quickly cli.fault_matrix hanare.five_hundred "
last=" model models "
faces="face.command face.c face.rust"

# seconds FILE: what the children of the shell that wrote its `times` there took of processors, whole seconds.
seconds() { sed -n '2{s/[ms]/ /g;p;}' "$1" | awk '{ printf "%d", ($1 + $3) * 60 + $2 + $4 + 0.5 }'; }

# face NAME: a program of that face counts on two nodes.
face() {
    built=${CARGO_TARGET_DIR:-target}/debug
    hanare=$built/hanare
    case $1 in
    command)
        "$hanare" demo matmul --n 64
        return
        ;;
    c)
        program=$folder/count library=$(cd "$built" && pwd)/libhanare_capi.so
        for name in libhanare.so libhanare.so.0; do ln -sf "$library" "$folder/$name"; done
        cc examples/count.c -Icrates/capi/include -L"$folder" -lhanare -Wl,-rpath,"$folder" -o "$program"
        ;;
    rust) program=$built/examples/count ;;
    esac
    told=$("$hanare" run --nodes 2 -n 2 "$program")
    echo "$told"
    [ "$told" = 2000 ]
}

# start NAME: becomes that test program, or what is no single one.
start() {
    case $1 in
    doc) exec "$cargo" test --workspace --doc ;;
    python) exec scripts/python.sh test ;;
    face.*)
        face "${1#face.}"
        exit
        ;;
    esac
    field() { awk -F '\t' -v name="$1" -v at="$2" '$1 == name { print $at }' "$folder/programs"; }
    program=$(field "$1" 3)
    cd "$(field "$1" 2)" && exec "$program"
}

# one NAME: runs it under the bound, and says in a line how that ended.
one() {
    name=$1
    log=$folder/$name.log
    begun=$(date +%s)
    status=0
    timeout --foreground --kill-after 10 "$bound" "$own" start "$name" >"$log" 2>&1 </dev/null || status=$?
    took=$(($(date +%s) - begun))
    # Not in a pipe, which has a shell of its own.
    times >"$log.times"
    case $status in
    0) verdict=ok ;;
    124 | 137) verdict=FAILED && echo "tests: ended after $bound s" >>"$log" ;;
    *) verdict=FAILED ;;
    esac
    counts=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' "$log" |
        awk '{ p += $1; f += $2; i += $3 } END { printf "%d %d %d", p, f, i }')
    echo "$name $verdict $took $(seconds "$log.times") $counts" >>"$folder/ended"
    printf '%-6s %4d s  %s: %s\n' "$verdict" "$took" "$name" "$(echo "$counts" | awk '{ print $1 " passed, " $2 " failed, " $3 " ignored" }')"
}

# programs: name, folder and file of each test program, as cargo built it, with tabs between.
programs() {
    sed -n '/"profile":{[^}]*"test":true/s/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"kind":\["\([^"]*\)"[^]]*\].*"name":"\([^"]*\)","src_path.*"executable":"\([^"]*\)".*/\1	\2	\3	\4/p' \
        "$folder/built.json" | while IFS='	' read -r home kind name program; do
        # Unit tests of a library or program bear the crate's name alone.
        case $kind in test) name=.$name ;; *) name= ;; esac
        printf '%s\t%s\t%s\n' "${home##*/}$name" "$home" "$program"
    done
}

# as_they_took: names, those first that took longest last time, and what is new before all.
as_they_took() {
    touch "$times"
    awk -v times="$times" 'BEGIN { while ((getline line <times) > 0) { split(line, field, " "); took[field[1]] = field[2] } }
        { print (($1 in took) ? took[$1] : 99999), $0 }' | sort -rn | cut -d' ' -f2-
}

# run JOBS: the programs of standard input, so many at a time.
run() { xargs -r -n 1 -P "$1" "$own" one; }

# end: names what failed and what was skipped; the last line is like cargo's.
end() {
    sort -u "$folder/skipped" 2>/dev/null | sed 's/^skipped: //' >"$folder/skips"
    awk '$2 != "ok" { print $1 }' "$folder/ended" | while read -r name; do
        echo "---- $name ($folder/$name.log)"
        sed -n '/^failures:$/,$p' "$folder/$name.log" | grep . || tail -n 30 "$folder/$name.log"
    done
    awk '{ print $1, $3 }' "$folder/ended" "$times" | awk '!seen[$1]++' >"$times.new" && mv "$times.new" "$times"
    if [ -s "$folder/skips" ]; then
        echo "skipped, by reason:"
        sed 's/^[^ ]*: //' "$folder/skips" | sort | uniq -c | sort -rn
    fi
    awk -v took="$1" -v skips="$(wc -l <"$folder/skips")" '
        $2 != "ok" { bad++ } { cpu += $4; p += $5; f += $6; i += $7 }
        END { printf "test result: %s. %d passed; %d failed; %d ignored; %d skipped; in %d programs, %d of which failed; %d s, %d s of processors\n",
            bad || NR == 0 ? "FAILED" : "ok", p, f, i, skips, NR, bad, took, cpu }' "$folder/ended" | tee "$folder/summary"
    grep -q '^test result: ok' "$folder/summary"
}

# begin: nothing has ended yet.
begin() {
    begun=$(date +%s)
    mkdir -p "$folder"
    rm -f "$folder"/ended "$folder"/skipped "$folder"/*.log "$folder"/*.times
    : >"$folder/ended"
    # Many tests wait for most of their time, so one more than there are processors.
    jobs=${TESTS_JOBS:-$(($(nproc) + 1))}
    SKIPPED_TESTS=$folder/skipped
    export SKIPPED_TESTS
}

# build WORD...: the test programs of that part of the workspace.
build() {
    "$cargo" test "$@" --no-run --message-format json-render-diagnostics >"$folder/built.json"
    times >"$folder/build.times"
    echo "built in $(($(date +%s) - begun)) s, $(seconds "$folder/build.times") s of processors"
    programs >"$folder/programs"
}

# The rules, the tables, the libraries' own tests, the house, and one program of each face on two nodes.
quick() {
    these="-p hanare-protocol -p hanare-home -p hanare-cli -p hanare-capi -p hanare"
    # The same packages and development's dependencies in both, so that nothing is built twice.
    "$cargo" build $these --lib --bins --example count
    build $these --lib --test tidy
    {
        cut -f 1 "$folder/programs"
        printf '%s\n' $faces
    } | as_they_took | run "$jobs"
}

# full [NAME...]: all of them, or those programs.
full() {
    # With the Python face, so that the wheel is made of what is built here. Libraries that are loaded are built as such: nbdkit's plugin,
    # what --main-memory loads, the C face. An example takes in what tests need, so that both builds share all else.
    "$cargo" build -q --workspace --lib --bins --example count
    build --workspace
    names=$(printf 'doc\npython\n' && cut -f 1 "$folder/programs")
    [ $# = 0 ] || names=$*
    for name in $names; do
        case $alone$last in *" $name "* | *" ${name%%.*} "*) ;; *) echo "$name" ;; esac
    done | as_they_took | run "$jobs"
    for name in $names; do case $alone in *" $name "*) echo "$name" ;; esac done | run 1
    for name in $names; do case $last in *" ${name%%.*} "*) echo "$name" ;; esac done | as_they_took | run "$jobs"
}

case ${1:-} in
full | quick)
    begin
    "$@"
    end $(($(date +%s) - begun))
    ;;
one | start) "$@" ;;
*)
    echo "tests.sh: full or quick, not '${1:-}'" >&2
    exit 2
    ;;
esac
