#!/usr/bin/env bash
# Runs all fuzz targets at once and writes the table OUT/fuzz.md: inputs run, and files that crashed, hung or took too
# much memory, which are copied to OUT.
#
# usage: tests/fuzz/run.sh PROGRAMS OUT SECONDS PROCESSES [INPUTS [TARGET...]]
#
# PROGRAMS is the folder of the programs *_fuzz. Each target runs in PROCESSES processes until INPUTS (10,000,000)
# inputs in all or SECONDS have passed; those that are done leave the processor to the others.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if (($# < 4)); then
  sed -n 's/^# usage: /usage: /p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
programs=$(cd "$1" && pwd) out=$2 seconds=$3 processes=$4 inputs=${5:-10000000}
shift $(($# < 5 ? $# : 5))
targets=("$@")
if ((${#targets[@]} == 0)); then
  for program in "$programs"/*_fuzz; do targets+=("$(basename "$program" _fuzz)"); done
fi
mkdir -p "$out"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
end=$(($(date +%s) + seconds))
export OMP_NUM_THREADS=1
# Old sanitizers do not start with 32 bits of address randomisation.
plain=()
if setarch -R true 2>/dev/null; then plain=(setarch -R); fi

dictionary_of() {
  case $1 in
    config | metrics | plan) echo "$here/json.dict" ;;
    checkpoint | model) echo "$here/model.dict" ;;
    csv | safetensors) echo "$here/$1.dict" ;;
  esac
}

# Even tiny pictures are larger than rich texts.
longest() { [[ $1 == image ]] && echo 4096 || echo 1024; }

# One process of a target. A finding ends the program, so it restarts with another seed.
fuzz() {
  local target=$1 number=$2 left=$3 seed=$((1000 * $2)) last=$((1000 * $2 + 500)) time done_now words=()
  local dictionary
  dictionary=$(dictionary_of "$target")
  [[ -z $dictionary ]] || words=("-dict=$dictionary")
  while ((left > 0 && seed < last)); do
    time=$((end - $(date +%s)))
    ((time > 0)) || break
    seed=$((seed + 1))
    "${plain[@]}" "$programs/${target}_fuzz" -seed=$seed -runs="$left" -max_total_time=$time \
      -rss_limit_mb=2048 -malloc_limit_mb=256 -timeout=10 -max_len="$(longest "$target")" -reload=10 \
      -print_final_stats=1 -artifact_prefix="$work/$target/found/" "${words[@]}" \
      "$work/$target/corpus" "$here/seeds/$target" >"$work/$target/log.$number.$seed" 2>&1
    done_now=$(sed -n 's/^stat::number_of_executed_units: //p' "$work/$target/log.$number.$seed" | tail -n 1)
    left=$((left - ${done_now:-0}))
  done
}

for target in "${targets[@]}"; do
  mkdir -p "$work/$target/found" "$work/$target/corpus"
  for ((i = 1; i <= processes; ++i)); do fuzz "$target" "$i" $(((inputs + processes - 1) / processes)) & done
done
wait

failures=0
{
  echo "| target | inputs | found | edges covered | inputs/s of one process |"
  echo "|---|---|---|---|---|"
  for target in "${targets[@]}"; do
    total=$(sed -n 's/^stat::number_of_executed_units: //p' "$work/$target"/log.* |
      awk '{ n += $1 } END { print n + 0 }')
    rate=$(sed -n 's/^stat::average_exec_per_sec: //p' "$work/$target"/log.* |
      awk '{ n += $1 } END { print NR ? int(n / NR) : 0 }')
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$work/$target"/log.* | sort -n | tail -n 1)
    found=$(find "$work/$target/found" -type f | wc -l)
    for file in "$work/$target/found"/*; do
      [[ -f $file ]] || continue
      failures=1
      cp "$file" "$out/$target-$(basename "$file")"
      log=$(grep -l "$(basename "$file")" "$work/$target"/log.* | head -n 1)
      [[ -z $log ]] || tail -n 60 "$log" >"$out/$target-$(basename "$file").log"
    done
    echo "| $target | $total | $found | ${edges:-0} | $rate |"
  done
} >"$out/fuzz.md"
cat "$out/fuzz.md"
exit $failures
