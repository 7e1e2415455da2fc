#!/bin/sh
# Builds a program against an installed Tern without CMake: build.sh OUTPUT, with PKG_CONFIG_PATH naming lib/pkgconfig.
set -eu
# The flags are words of their own.
# shellcheck disable=SC2046
${CXX:-c++} -std=c++20 -O1 -o "$1" "$(dirname "$0")/../main.cpp" $(pkg-config --cflags --libs tern)
"$1"
