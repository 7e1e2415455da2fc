#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy on the sources of the library and the tools that differ from the commit BASE, or are
# not committed: scripts/lint.sh [BASE]. The default is the commit before the newest. --all checks all of them. Any
# finding fails.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tidy=$(clang_tool clang-tidy "finds faults in the sources")

cd "$root"
# A separate configuration in which every source has a command, whatever build/ is; clang lacks g++'s omp.h.
configure build/lint -DTERN_UNITY=OFF -DTERN_CUDA=OFF -DTERN_BUILD_TESTS=OFF -DTERN_BUILD_EXAMPLES=OFF \
  -DTERN_BUILD_BENCHMARKS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON 2>&1 | grep -v '^-- ' >&2 || true
[[ -e build/lint/compile_commands.json ]] || fail "the configuration failed, see above"
# Without precompiled headers, which depend on the compiler, and without the compiler's launcher.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
commands=$folder/compile_commands.json
sed -e 's/ -include [^ ]*cmake_pch\.hxx//g' -e 's/"command": "[^ ]*ccache /"command": "/' \
  build/lint/compile_commands.json >"$commands"

changed() {
  git diff --name-only "$1" -- && git ls-files --others --exclude-standard
}
case ${1:-} in
  --all) mapfile -t files < <(git ls-files 'src/*.cpp' 'tools/*.cpp') ;;
  -*) fail "usage: scripts/lint.sh [BASE | --all]" ;;
  *) mapfile -t files < <(changed "${1:-HEAD~1}" | grep -E '^(src|tools)/.*\.cpp$' | sort -u) ;;
esac
# Deleted files, and files that are not built here, have no command.
known=()
for file in "${files[@]}"; do
  if [[ -e $file ]] && grep -qF "/$file\"" "$commands"; then known+=("$file"); fi
done
if ((${#known[@]})); then
  printf '%s\n' "${known[@]}" |
    xargs -P "$(cores)" -n 4 "$tidy" -p "$folder" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null ||
    fail "clang-tidy has findings, see above"
fi
say "clang-tidy finds nothing in ${#known[@]} sources"
