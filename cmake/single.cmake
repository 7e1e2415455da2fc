# tern_single.hpp: the library as one file to copy (scripts/single_header.py). It is written anew only if it changes.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
  message(STATUS "tern_single.hpp is not written: Python was not found (apt install python3)")
  return()
endif()
set(TERN_SINGLE ${CMAKE_CURRENT_BINARY_DIR}/single/tern_single.hpp)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/single)
file(GLOB_RECURSE single_sources CONFIGURE_DEPENDS include/*.hpp src/*.hpp src/*.cpp scripts/single/*.cpp)
add_custom_command(OUTPUT ${TERN_SINGLE}
                   COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/single_header.py ${TERN_SINGLE}
                   DEPENDS scripts/single_header.py LICENSE ${single_sources} VERBATIM)
add_custom_target(tern_single ALL DEPENDS ${TERN_SINGLE})
if(TERN_INSTALL)
  install(FILES ${TERN_SINGLE} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
