#!/usr/bin/env bash
# Formats all sources as .clang-format says. --check changes nothing and fails, with the differences, where a file is not.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

format=$(clang_tool clang-format "formats the sources")

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
