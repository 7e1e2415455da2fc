# TERN_OPERATORS: a library for programs that load a saved program and answer, as small as they need it
# (docs/inference.md). It has the mode vectorized alone, in float32 and 8 bits, without gradients, training, data sets
# and the debug device; a loaded program may name the listed operators.
set(TERN_WHOLE ON)
if(NOT TERN_OPERATORS)
  return()
endif()
set(TERN_WHOLE OFF)
set(TERN_LISTED ${TERN_OPERATORS})
cmake_path(ABSOLUTE_PATH TERN_LISTED BASE_DIRECTORY ${CMAKE_BINARY_DIR} NORMALIZE OUTPUT_VARIABLE list_file)
if(EXISTS "${list_file}" AND NOT IS_DIRECTORY "${list_file}")
  file(STRINGS "${list_file}" TERN_LISTED REGEX "^[a-z]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list_file}")
endif()
# A name that no operator has would be noticed when the program is loaded.
file(GLOB lists src/operators/op_list_*.cpp)
set(known)
foreach(list IN LISTS lists)
  file(STRINGS ${list} lines REGEX "append<\"")
  list(TRANSFORM lines REPLACE ".*append<\"([a-z0-9_]+)\">.*" "\\1")
  list(APPEND known ${lines})
endforeach()
list(APPEND known float64 int32 int64 bool)
foreach(name IN LISTS TERN_LISTED)
  if(NOT name IN_LIST known)
    message(FATAL_ERROR "TERN_OPERATORS: there is neither an operator nor a file '${name}'; "
            "`tern graph --model FILE --format operators` lists those of a saved program")
  endif()
endforeach()
# What programs call for themselves, to copy inputs and slices of a batch.
list(APPEND TERN_LISTED copy slice permute reshape cast)
list(REMOVE_DUPLICATES TERN_LISTED)
foreach(part BUILD_SHARED_LIBS TERN_HIGHWAY_LIBRARY TERN_CUDA TERN_IMAGES TERN_ONNX TERN_MPI TERN_BUILD_TESTS
             TERN_BUILD_EXAMPLES TERN_BUILD_BENCHMARKS TERN_BUILD_TOOLS)
  set(${part} OFF)
endforeach()
set(CMAKE_DISABLE_FIND_PACKAGE_OpenMP ON)  # the workers are engine enough
