#!/usr/bin/env bash
# How long the first commands take from a clean clone, on a machine with nothing else to do:
#
#     benchmarks/first_minutes.sh RUNS COMMIT ... [-- COMMAND ...]
#
# Prints a row for each run of each command at each commit: seconds on the clock, of processor time, and for
# scripts/mnist.sh until the first epoch's line. COMMAND is mnist, test (without nvcc) or ci; all three by default. The
# output of each run stays in first-minutes/.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
runs=${1:?RUNS COMMIT ...}
shift
commits=() commands=(mnist test ci)
while (($#)) && [[ $1 != -- ]]; do commits+=("$1") && shift; done
if (($#)); then shift && commands=("$@"); fi
mkdir -p first-minutes
logs=$(cd first-minutes && pwd)

# run_one COMMIT COMMAND RUN
run_one() {
  local folder log=$logs/$1-$2-$3.log begin first='' line
  folder=$(mktemp -d)
  chmod 755 "$folder"  # a test runs the program as another user
  git clone -q "$root" "$folder/tern"
  git -C "$folder/tern" checkout -q "$1"
  cd "$folder/tern"
  local words
  case $2 in
    mnist) words=(scripts/mnist.sh)
      # Real digits where TERN_DATA_DIR names them.
      [[ -n ${TERN_DATA_DIR:-} ]] || words+=(--synthetic)
      ;;
    test)
      sed -i 's/^have_nvcc() {/have_nvcc() { return 1; }\nhidden_nvcc() {/' scripts/common.sh
      words=(scripts/test.sh)
      ;;
    ci) words=(.ci/run) ;;
    *) echo "first_minutes.sh: $2 is none of mnist, test, ci" >&2 && exit 1 ;;
  esac
  begin=$(date +%s.%N)
  # The lines pass by as they come, so that the first epoch's is timed.
  { /usr/bin/time -f 'processor time: %U %S' "${words[@]}" 2>&1 || echo "exit status $?"; } |
    while IFS= read -r line; do
      printf '%6.1f %s\n' "$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')" "$line"
    done >"$log"
  first=$(awk '/ epoch +1[ :\/]/ && !seen++ { print $1 }' "$log")
  awk -v commit="$1" -v command="$2" -v run="$3" -v first="${first:--}" '
    / processor time: / { total = $1; used = $(NF - 1) + $NF }
    / exit status / { status = "failed" }
    END {
      printf "| %s | %s | %s | %.0f | %.0f | %s | %s |\n", command, commit, run, total, used, first, status
    }' "$log"
  cd "$root"
  rm -rf "$folder"
}

echo "| command | commit | run | seconds | processor time | first epoch at | |"
echo "|---|---|---|---|---|---|---|"
for ((number = 1; number <= runs; ++number)); do
  for command in "${commands[@]}"; do
    for commit in "${commits[@]}"; do run_one "$commit" "$command" "$number"; done
  done
done
