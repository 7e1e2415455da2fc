#!/usr/bin/env bash
# clang-tidy, as .clang-tidy says, on the sources of the library and the tools that differ from BASE, a commit, or are
# not committed yet: scripts/lint.sh [BASE]; without it from the commit before the newest. On all of them: --all. Any
# finding fails.
# One version for everyone: clang-tidy 14, which Debian 12 and Ubuntu 24.04 both have. The build has to be configured.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tidy=
for candidate in clang-tidy-14 clang-tidy; do
  if have_command "$candidate" && "$candidate" --version | grep -q 'version 14\.'; then tidy=$candidate; fi
done
if [[ -z $tidy ]]; then
  tidy=clang-tidy-14
  need command clang-tidy-14 clang-tidy-14 "finds faults in the sources"
  install_missing
fi

cd "$root"
commands=build/compile_commands.json
[[ -e $commands ]] || fail "there is no $commands; scripts/test.sh or cmake --preset release makes it"

changed() {
  git diff --name-only "$1" -- && git ls-files --others --exclude-standard
}
case ${1:-} in
  --all) mapfile -t files < <(git ls-files 'src/*.cpp' 'tools/*.cpp') ;;
  -*) fail "usage: scripts/lint.sh [BASE | --all]" ;;
  *) mapfile -t files < <(changed "${1:-HEAD~1}" | grep -E '^(src|tools)/.*\.cpp$' | sort -u) ;;
esac
# What is gone, or not built here, has no command.
known=()
for file in "${files[@]}"; do
  if [[ -e $file ]] && grep -qF "/$file\"" "$commands"; then known+=("$file"); fi
done
if ((${#known[@]})); then
  printf '%s\n' "${known[@]}" |
    xargs -P "$(cores)" -n 4 "$tidy" -p build --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null ||
    fail "clang-tidy has findings, see above"
fi
say "clang-tidy finds nothing in ${#known[@]} sources"
