# Turns a page of docs/book into the one program that it is: what is marked "cpp file" stands before main, the other
# ```cpp blocks one after the other in main.
# Usage: awk -f program.awk page.md > program.cpp
BEGIN { print "#include <cstdio>\n#include <iostream>\n\n#include <tern/tern.hpp>\n\nusing namespace tern;" }
/^```cpp file$/ { inside = 1; printf "#line %d \"%s\"\n", FNR + 1, FILENAME; next }
/^```cpp$/ { inside = 2; body = body "#line " FNR + 1 " \"" FILENAME "\"\n"; next }
/^```$/ { inside = 0 }
inside == 1 { print }
inside == 2 { body = body $0 "\n" }
END { printf "int main() {\n%s}\n", body }
