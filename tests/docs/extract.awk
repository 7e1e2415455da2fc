# Turns the ```cpp blocks of a Markdown file into C++: a block marked "file" is a translation unit of its own, the others
# become functions of one more, behind nothing but the one #include that a reader writes.
# Usage: awk -v stem=OUT/name -v name=name -f extract.awk page.md
BEGIN {
  functions = stem ".cpp"
  print "#include <tern/tern.hpp>" > functions
}
/^```cpp file$/ { output = stem "_" (++files) ".cpp"; printf "" > output; inside = 1; next }
/^```cpp$/ { output = functions; inside = 2; printf "void %s_%d();\nvoid %s_%d() {\n#line %d \"%s\"\n", name, ++count, name, count, FNR + 1, FILENAME >> output; next }
/^```$/ && inside { if (inside == 2) print "}" >> output; inside = 0; next }
inside { print >> output }
