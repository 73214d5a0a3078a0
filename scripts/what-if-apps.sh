#!/bin/sh
# Recorded programs beside their replay: calibrates, records each program of the papers on two nodes of this host, and asks what it would do
# here. A line a program: what was recorded, what the model knows of it alone, and the replay; or why it is refused.
# For a quiet host: `make apps` first. Needs no privileges. --json writes the answers into a file instead; --few takes three programs.
# usage: what-if-apps.sh [--few] [--json FILE] PATH-TO-HANARE FOLDER-OF-APPS [COSTS.toml, kept from an earlier calibration]
set -eu
few='' json=''
while true; do
    case ${1:-} in
        --few) few=yes; shift ;;
        --json) json=$2; shift 2 ;;
        *) break ;;
    esac
done
hanare=$1
apps=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
costs=${3:-$folder/costs.toml}
# What ran before still counts in the load of a minute: five minutes at most until a processor is free.
for _ in $(seq 30); do
    awk -v processors="$(nproc)" '{ exit !($1 < processors) }' /proc/loadavg && break
    sleep 10
done
echo "load: $(cat /proc/loadavg)"
test -e "$costs" || "$hanare" what-if --calibrate --calibration "$costs" >/dev/null
asked=0 refused=0
# A line as a text of JSON.
quoted() { tr '\n' ' ' | sed 's/[\\"]/\\&/g; s/ *$//; s/.*/"&"/'; }
told() {
    if [ -z "$json" ]; then return; fi
    if [ $asked -gt 1 ]; then echo , >>"$folder/answers"; fi
    printf '{"program": "%s", "%s": %s}' "$1" "$2" "$3" >>"$folder/answers"
}
ask() {
    name=$1
    shift
    asked=$((asked + 1))
    "$hanare" run --nodes 2 -n 2 --memory 512M --record "$folder/$name" -- "$@" >/dev/null 2>"$folder/$name.err" || {
        echo "$name: does not run: $(tail -1 "$folder/$name.err")"
        refused=$((refused + 1))
        told "$name" fails "$(tail -1 "$folder/$name.err" | quoted)"
        return
    }
    if "$hanare" what-if --trace "$folder/$name" ${json:+--json} --calibration "$costs" >"$folder/$name.txt" 2>"$folder/$name.err"; then
        if [ -z "$json" ]; then echo "$name:$(grep '^  recorded:' "$folder/$name.txt" | sed 's/^ //')"; fi
        told "$name" answer "$(cat "$folder/$name.txt")"
    else
        refused=$((refused + 1))
        echo "$name: $(cat "$folder/$name.err")"
        told "$name" refused "$(quoted <"$folder/$name.err")"
    fi
    rm -rf "${folder:?}/$name"
}
ask table4 "$apps/table4"
ask himeno "$apps/himeno-mapped" XS
ask halo "$apps/halo" 32
if [ -z "$few" ]; then
    ask quicksort "$apps/quicksort-mapped" 1000000
    ask nbody "$apps/nbody" 4096
    ask kmeans "$apps/kmeans"
    ask distributed "$apps/distributed" 256
    ask lu "$apps/lu-mapped" 256
fi
echo "refused: $refused of $asked"
echo "load: $(cat /proc/loadavg)"
if [ -n "$json" ]; then printf '[%s]\n' "$(cat "$folder/answers")" >"$json"; fi
