#!/bin/sh -e
# A project without a build type gets a message, and the Tern that it includes is optimised nevertheless.
# Usage: unoptimised_parent.sh CMAKE PROJECT TERN BUILD_FOLDER PREFIX_PATH
rm -rf "$4"
"$1" -S "$2" -B "$4" "-DTERN_SOURCE_DIR=$3" "-DCMAKE_PREFIX_PATH=$5" -DCMAKE_BUILD_TYPE= \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTERN_CUDA=OFF > "$4.log" 2>&1
grep -q 'CMAKE_BUILD_TYPE is empty' "$4.log"
grep '"command".*tensor/tensor.cpp' "$4/compile_commands.json" | grep -q -- ' -O3 '
if grep '"command".*consumers/main.cpp' "$4/compile_commands.json" | grep -q -- ' -O'; then exit 1; fi
