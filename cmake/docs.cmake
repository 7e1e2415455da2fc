# The pages of docs/ and the API reference as one site, in docs/html of the build folder: `cmake --build build --target
# docs`. The theme is Debian's doxygen-awesome-css; without it, Doxygen's own.
find_program(TERN_DOXYGEN doxygen)
if(TERN_DOXYGEN)
  set(TERN_DOCS_DIR ${CMAKE_CURRENT_BINARY_DIR}/docs)
  find_path(TERN_DOXYGEN_THEME doxygen-awesome.css PATHS /usr/share/doxygen-awesome-css)
  mark_as_advanced(TERN_DOXYGEN_THEME)
  set(TERN_DOXYGEN_STYLES)
  if(TERN_DOXYGEN_THEME)
    set(TERN_DOXYGEN_STYLES
        "\"${TERN_DOXYGEN_THEME}/doxygen-awesome.css\" \"${TERN_DOXYGEN_THEME}/doxygen-awesome-sidebar-only.css\"")
  endif()
  configure_file(docs/Doxyfile.in ${TERN_DOCS_DIR}/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${TERN_DOXYGEN} ${TERN_DOCS_DIR}/Doxyfile
                         COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/docs/pictures
                                 ${TERN_DOCS_DIR}/html/docs/pictures
                    COMMENT "documentation in ${TERN_DOCS_DIR}/html/index.html" VERBATIM)
endif()
