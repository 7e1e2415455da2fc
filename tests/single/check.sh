#!/usr/bin/env bash
# Compiles tern_single.hpp as its users do, without CMake and without libraries, and compares what it computes with what
# the library computes: LeNet's training in one program of two sources, and a draw of the catalogue.
#
# usage: check.sh COMPILER HEADER TREE WORK LIBRARY_LENET LIBRARY_DRAW DRAW_OBJECT CATALOGUE [EVERY]
#
# The library's programs and the archive of the catalogue come from the build. EVERY takes each so many-th sample.
set -euo pipefail
compiler=$1 header=$2 tree=$3 work=$4 library_lenet=$5 library_draw=$6 draw_object=$7 catalogue=$8 every=${9:-4}
mkdir -p "$work"
warnings=(-Wall -Wextra -Werror)
flags=(-std=c++20 -O1 -I "$(dirname "$header")" -DTERN_SEQUENTIAL_ALONE)
seconds() { local TIMEFORMAT="%U s of processor time: $1"; shift; time "$@"; }

seconds "declarations" "$compiler" "${flags[@]}" "${warnings[@]}" -fsyntax-only -include "$header" -x c++ /dev/null
seconds "implementation" "$compiler" "${flags[@]}" "${warnings[@]}" -c "$tree/tests/single/implementation.cpp" \
  -o "$work/implementation.o"
if "$compiler" -fsyntax-only -include hwy/highway.h -x c++ /dev/null 2>/dev/null; then
  seconds "implementation with vectorized, parsed alone" "$compiler" -std=c++20 -I "$(dirname "$header")" \
    "${warnings[@]}" -fsyntax-only "$tree/tests/single/implementation.cpp"
fi
# The implementation is in the other source.
"$compiler" "${flags[@]}" "${warnings[@]}" -DTERN_SINGLE_IMPLEMENTED -c "$tree/examples/single/lenet.cpp" \
  -o "$work/lenet.o"
"$compiler" "$work/lenet.o" "$work/implementation.o" -o "$work/lenet"
"$compiler" "$draw_object" "$catalogue" "$work/implementation.o" -o "$work/draw"

"$work/lenet" "" 256 >"$work/lenet.txt"
TERN_LENET_MODE=sequential "$library_lenet" "" 256 >"$work/lenet_library.txt"
diff "$work/lenet.txt" "$work/lenet_library.txt"
"$work/draw" sequential "$every" >"$work/draw.txt"
"$library_draw" sequential "$every" >"$work/draw_library.txt"
diff "$work/draw.txt" "$work/draw_library.txt" | head -20
cmp "$work/draw.txt" "$work/draw_library.txt"
echo "LeNet and $(wc -l <"$work/draw.txt") samples have the library's bits; $(wc -l <"$header") lines"
