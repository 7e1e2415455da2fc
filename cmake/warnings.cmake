# Warnings are errors in our own build, but not when another project embeds us, whose compiler may be newer.
# TERN_SANITIZE applies to everything built here for the host.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
endif()
add_library(tern_warnings INTERFACE)
target_compile_options(tern_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  # g++ 12 sees overlapping copies in every "literal" + std::string (GCC bug 105651); g++ 13 takes a reference that a
  # lambda called at once returns for one into the lambda.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>)
if(TERN_SANITIZE)
  list(JOIN TERN_SANITIZE "," sanitizers)
  set(sanitized -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitized}>")
  add_link_options(-fsanitize=${sanitizers})
  # In instrumented code g++ cannot see what is initialised, or string lengths; ThreadSanitizer does not support fences.
  target_compile_options(tern_warnings INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-tsan>")
endif()
