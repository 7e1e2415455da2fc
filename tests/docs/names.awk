# Every name such as nn::Linear that the text of the pages mentions, as a using declaration: it compiles if there is
# such a thing.
# Usage: awk -f names.awk page.md... > names.cpp
BEGIN { print "#include <tern/tern.hpp>" }
/^```/ { inside = !inside; next }
!inside {
  while (match($0, /(^|[^A-Za-z_:])(nn|op|operators|optim|data|io|models|autograd|parallel|train)::(init::)?[A-Za-z_][A-Za-z_0-9]*/)) {
    name = substr($0, RSTART, RLENGTH)
    sub(/^[^A-Za-z]/, "", name)
    $0 = substr($0, RSTART + RLENGTH)
    sub(/^op::/, "operators::", name)
    if (seen[name]++ || name == "nn::init") continue
    printf "#line %d \"%s\"\nnamespace name_%d { using tern::%s; }\n", FNR, FILENAME, ++count, name
  }
}
