# The API reference, in reference/html of the build folder: `cmake --build build --target reference`.
find_program(TERN_DOXYGEN doxygen)
if(TERN_DOXYGEN)
  set(TERN_REFERENCE_DIR ${CMAKE_CURRENT_BINARY_DIR}/reference)
  configure_file(docs/Doxyfile.in ${TERN_REFERENCE_DIR}/Doxyfile @ONLY)
  add_custom_target(reference COMMAND ${TERN_DOXYGEN} ${TERN_REFERENCE_DIR}/Doxyfile
                    COMMENT "API reference in ${TERN_REFERENCE_DIR}/html" VERBATIM)
endif()
