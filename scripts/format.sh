#!/usr/bin/env bash
# Formats all sources as .clang-format says. --check changes nothing, and fails with the differences if a source is not
# formatted or a line of a script or of CMake exceeds 120 columns.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

format=$(clang_tool clang-format "formats the sources")

cd "$root"
mapfile -t files < <(find include src tools examples tests benchmarks -regex '.*\.\([ch]pp\|cuh?\)' | sort)
case ${1:-} in
  --check)
    "$format" --dry-run --Werror "${files[@]}" || fail "not formatted; scripts/format.sh does it"
    mapfile -t others < <(git ls-files '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' .ci/run)
    wide=$(LC_ALL=C.UTF-8 grep -nHE '^.{121}' "${others[@]}" | cut -d: -f1,2 || true)
    [[ -z $wide ]] || fail "lines over 120 columns:"$'\n'"$wide"
    say "${#files[@]} files are formatted"
    ;;
  "") "$format" -i "${files[@]}" ;;
  *) fail "usage: scripts/format.sh [--check]" ;;
esac
