# Warnings are errors in our own code; TERN_SANITIZE applies to everything built here.
add_library(tern_warnings INTERFACE)
target_compile_options(tern_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror>)
if(TERN_SANITIZE)
  list(JOIN TERN_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${sanitizers})
endif()
