#!/bin/bash -e
# A program to ship (docs/inference.md), statically linked with a library for its operators alone: it is small, refuses
# what was left out, and gives the whole library's bits for every operator of the catalogue.
# Usage: check.sh MAKE CMAKE SOURCES FOLDER COMPILER OPTION...
make=$1 cmake=$2 sources=$3 folder=$4 compiler=$5
shift 5
here=$(dirname "${BASH_SOURCE[0]}")

"$make" "$folder/networks"
"$make" "$folder/catalogue" catalogue

build() {  # NAME: answer-NAME, for the operators of the folder of this name
  "$cmake" -S "$sources" -B "$folder/build" "-DCMAKE_CXX_COMPILER=$compiler" -DTERN_SIMD_TARGETS=native \
    "-DTERN_OPERATORS=$folder/$1/operators.txt" "${options[@]}" >"$folder/build.log" 2>&1 &&
    "$cmake" --build "$folder/build" --target tern >>"$folder/build.log" 2>&1 ||
    { tail -40 "$folder/build.log"; exit 1; }
  "$compiler" -std=c++20 -O1 "-I$sources/include" "$here/answer.cpp" -static -Wl,--gc-sections -s \
    "$folder/build/libtern.a" -lz -o "$folder/answer-$1" 2>&1 | grep -v warning || true
}
options=("$@")

build catalogue
for program in "$folder"/catalogue/*.tern; do echo "${program%.tern}"; done | xargs "$folder/answer-catalogue"

build networks
"$folder/answer-networks" "$folder"/networks/{lenet,resnet18,int8}
size=$(stat -c %s "$folder/answer-networks")
echo "$size bytes"
((size <= 3000000)) || { echo "more than 3 MB"; exit 1; }
# One of the others, which names an operator that the list leaves out.
other=$(grep -l ' = softmax(' "$folder"/catalogue/*.tern | head -n 1)
refusal=$("$folder/answer-networks" "${other%.tern}" || true)
[[ $refusal == *"no operator 'softmax'"*TERN_OPERATORS* ]] || { echo "no refusal: $refusal"; exit 1; }
