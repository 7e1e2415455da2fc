#!/usr/bin/env bash
# A program to ship (docs/inference.md): its size, and the time from the start of the process to its end behind one
# answer, the median of 21 runs. BUILD is a build folder with tests, whose ctest -R package.answers has passed.
# Usage: benchmarks/small_program.sh BUILD
set -euo pipefail
folder=$1/tests/package/answers
echo "| program | bytes | of its file | milliseconds |"
echo "|---|---|---|---|"
for name in lenet resnet18 int8; do
  for ((i = 0; i < 21; ++i)); do
    begin=${EPOCHREALTIME/./}
    "$folder/answer-networks" --once "$folder/networks/$name"
    echo $((${EPOCHREALTIME/./} - begin))
  done | sort -n | sed -n 11p >"$folder/median"
  echo "| $name | $(stat -c %s "$folder/answer-networks") | $(stat -c %s "$folder/networks/$name.tern")" \
    "| $(awk '{ printf "%.1f", $1 / 1000 }' "$folder/median") |"
done
