#!/usr/bin/env bash
# Formats all sources as .clang-format says. --check changes nothing and fails, with the differences, where a file is not.
# One version for everyone: clang-format 14, which Debian 12 and Ubuntu 24.04 both have.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

format=
for candidate in clang-format-14 clang-format; do
  if have_command "$candidate" && "$candidate" --version | grep -q 'version 14\.'; then format=$candidate; fi
done
if [[ -z $format ]]; then
  format=clang-format-14
  need command clang-format-14 clang-format-14 "formats the sources"
  install_missing
fi

cd "$root"
mapfile -t files < <(find include src tools examples tests benchmarks -regex '.*\.\([ch]pp\|cuh?\)' | sort)
case ${1:-} in
  --check)
    "$format" --dry-run --Werror "${files[@]}" || fail "not formatted; scripts/format.sh does it"
    say "${#files[@]} files are formatted"
    ;;
  "") "$format" -i "${files[@]}" ;;
  *) fail "usage: scripts/format.sh [--check]" ;;
esac
