#!/bin/sh
# fit_costs/test.sh PROGRAM: times that follow the costs of one file, fitted from others, make the same choices.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" imitate "$folder/times"
"$1" fit "$folder/times" "$folder/costs.cuh" --from-plain >"$folder/report"
cat "$folder/report"
# The choices of every member on problems that were left out: within 5 % of the fastest cuts in the mean.
awk 'NR > 1 { if ($8 > 1.05 || $5 != "%") { print "too far:", $0; failed = 1 } count++ }
  END { exit failed || count != 13 }' "$folder/report"
grep -q "inline constexpr Costs sm90{" "$folder/costs.cuh"
# Files of another kind are refused.
echo "strict_tiles;linear 1 x 2 to 3;0;1" >"$folder/wrong"
! "$1" fit "$folder/wrong" "$folder/none.cuh" 2>/dev/null
