#!/bin/sh
# Predictions beside measurements: calibrates on loopback, then compares there and on a loopback of 1 Gb/s and 100 Mb/s.
# In a network namespace of its own, so that nothing else is shaped. Needs tc and the right to make namespaces.
# A file that is named takes the comparisons in; the report shows those of crates/model/validated.toml.
# usage: what-if.sh PATH-TO-HANARE [FILE.toml]
set -eu
if [ "${IN_NAMESPACE:-}" != yes ]; then
    exec env IN_NAMESPACE=yes unshare --net sh "$0" "$@"
fi
hanare=$1
folder=$(mktemp -d)
kept=${2:-$folder/kept.toml}
trap 'rm -rf "$folder"' EXIT
ip link set lo up
# What ran before still counts in the load of a minute: five minutes at most until a processor is free.
for _ in $(seq 30); do
    awk -v processors="$(nproc)" '{ exit !($1 < processors) }' /proc/loadavg && break
    sleep 10
done
echo "load: $(cat /proc/loadavg)"
"$hanare" what-if --calibrate --calibration "$folder/costs.toml"
failed=0
compare() {
    echo "load: $(cat /proc/loadavg)"
    "$hanare" what-if --validate --calibration "$folder/costs.toml" --network "$1" --keep "$kept" || failed=1
}
compare here
for rate in 1000 100; do
    printf 'name = "loopback of %s Mb/s"\nlatency = "0 ns"\nbandwidth = "%s Mb/s"\noverhead = "0 ns"\nburst = "256 KB"\nshared = true\npayload = "65483 B"\naround = "66 B"\n' "$rate" "$rate" > "$folder/$rate.toml"
    tc qdisc replace dev lo root tbf rate "${rate}mbit" burst 256000 latency 500ms
    compare "$folder/$rate.toml"
done
exit $failed
