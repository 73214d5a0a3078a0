#!/bin/sh
# Predictions beside measurements: calibrates on loopback, then compares there and on a loopback of 1 Gb/s and 100 Mb/s.
# In a network namespace of its own, so that nothing else is shaped. Without ip, tc or the right to make namespaces it compares on loopback alone.
# A file that is named takes the comparisons in; the report shows those of crates/model/validated.toml.
# --short compares by short measurements: less than a minute in all. --apps replays recorded programs as what-if-apps.sh does, too.
# --json writes all results into one file.
# usage: what-if.sh [--short] [--json FILE] [--apps FOLDER-OF-APPS] PATH-TO-HANARE [FILE.toml]
set -eu
can_shape() { command -v ip >/dev/null && command -v tc >/dev/null && unshare --net ip link set lo up 2>/dev/null; }
if [ -z "${IN_NAMESPACE:-}" ]; then
    if can_shape; then exec env IN_NAMESPACE=yes unshare --net sh "$0" "$@"; fi
    echo "no network of its own here: compares on loopback alone" >&2
    IN_NAMESPACE=no
fi
short='' json='' apps=''
while true; do
    case ${1:-} in
        --short) short=--quick; shift ;;
        --json) json=$2; shift 2 ;;
        --apps) apps=$2; shift 2 ;;
        *) break ;;
    esac
done
hanare=$1
folder=$(mktemp -d)
kept=${2:-$folder/kept.toml}
trap 'rm -rf "$folder"' EXIT
if [ $IN_NAMESPACE = yes ]; then ip link set lo up; fi
# What ran before still counts in the load of a minute: five minutes at most until a processor is free.
for _ in $(seq 30); do
    awk -v processors="$(nproc)" '{ exit !($1 < processors) }' /proc/loadavg && break
    sleep 10
done
load=$(cat /proc/loadavg)
echo "load: $load"
format=''
if [ -n "$json" ]; then format=--json; fi
"$hanare" what-if --calibrate $format --calibration "$folder/costs.toml" >"$folder/calibration"
if [ -z "$json" ]; then cat "$folder/calibration"; fi
failed=0
compare() {
    echo "load: $(cat /proc/loadavg)"
    "$hanare" what-if --validate $short $format --calibration "$folder/costs.toml" --network "$1" --keep "$kept" >"$folder/compared" || failed=1
    if [ -z "$json" ]; then cat "$folder/compared"; return; fi
    if [ -e "$folder/comparisons" ]; then echo , >>"$folder/comparisons"; fi
    cat "$folder/compared" >>"$folder/comparisons"
}
compare here
if [ $IN_NAMESPACE = yes ]; then
    for rate in 1000 100; do
        printf 'name = "loopback of %s Mb/s"\nlatency = "0 ns"\nbandwidth = "%s Mb/s"\noverhead = "0 ns"\nburst = "256 KB"\nshared = true\npayload = "65483 B"\naround = "66 B"\n' "$rate" "$rate" > "$folder/$rate.toml"
        tc qdisc replace dev lo root tbf rate "${rate}mbit" burst 256000 latency 500ms
        compare "$folder/$rate.toml"
    done
    tc qdisc del dev lo root
fi
if [ -n "$apps" ]; then
    sh "$(dirname "$0")/what-if-apps.sh" ${json:+--json "$folder/apps"} "$hanare" "$apps" "$folder/costs.toml" || failed=1
fi
if [ -n "$json" ]; then
    programs=null
    if [ -e "$folder/apps" ]; then programs=$(cat "$folder/apps"); fi
    printf '{"load": "%s", "is_short": %s, "calibration": %s, "comparisons": [%s], "programs": %s}\n' \
        "$load" "$([ -n "$short" ] && echo true || echo false)" "$(cat "$folder/calibration")" "$(cat "$folder/comparisons")" "$programs" >"$json"
fi
exit $failed
