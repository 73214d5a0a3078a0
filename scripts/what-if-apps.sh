#!/bin/sh
# Recorded programs beside their replay: calibrates, records each program of the papers on two nodes of this host, and asks what it would do
# here. A line a program: what was recorded, what the model knows of it alone, and the replay; or why it is refused.
# For a quiet host: `make apps` first. Needs no privileges.
# usage: what-if-apps.sh PATH-TO-HANARE FOLDER-OF-APPS [COSTS.toml, kept from an earlier calibration]
set -eu
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
refused=0
ask() {
    name=$1
    shift
    "$hanare" run --nodes 2 -n 2 --memory 512M --record "$folder/$name" -- "$@" >/dev/null 2>"$folder/$name.err" ||
        { echo "$name: does not run: $(tail -1 "$folder/$name.err")"; return; }
    if "$hanare" what-if --trace "$folder/$name" --calibration "$costs" >"$folder/$name.txt" 2>"$folder/$name.err"; then
        echo "$name:$(grep '^  recorded:' "$folder/$name.txt" | sed 's/^ //')"
    else
        refused=$((refused + 1))
        echo "$name: $(cat "$folder/$name.err")"
    fi
    rm -rf "${folder:?}/$name"
}
ask quicksort "$apps/quicksort-mapped" 1000000
ask table4 "$apps/table4"
ask himeno "$apps/himeno-mapped" XS
ask halo "$apps/halo" 32
ask nbody "$apps/nbody" 4096
ask kmeans "$apps/kmeans"
ask distributed "$apps/distributed" 256
ask lu "$apps/lu-mapped" 256
echo "refused: $refused of 8"
echo "load: $(cat /proc/loadavg)"
