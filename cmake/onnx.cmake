# tern::onnx, a library of its own: networks from ONNX files and back. protozero reads and writes the wire format; it is
# headers alone, so that no second copy of onnx.proto can meet another one in a program.
set(TERN_ONNX_BUILT OFF)
if(TERN_ONNX STREQUAL "OFF")
  set(tern_onnx_reason "switched off by TERN_ONNX=OFF")
  return()
endif()
find_path(TERN_PROTOZERO_INCLUDE protozero/pbf_reader.hpp)
mark_as_advanced(TERN_PROTOZERO_INCLUDE)
if(NOT TERN_PROTOZERO_INCLUDE)
  set(tern_onnx_reason "protozero/pbf_reader.hpp was not found (apt install libprotozero-dev)")
  if(TERN_ONNX STREQUAL "ON")
    message(FATAL_ERROR "TERN_ONNX=ON: ${tern_onnx_reason}")
  endif()
  return()
endif()
set(TERN_ONNX_BUILT ON)

file(GLOB onnx_sources CONFIGURE_DEPENDS src/onnx/*.cpp)
add_library(tern_onnx ${onnx_sources})
add_library(tern::onnx ALIAS tern_onnx)
target_link_libraries(tern_onnx PUBLIC tern PRIVATE $<BUILD_INTERFACE:tern_warnings>)
target_include_directories(tern_onnx PRIVATE src)
target_include_directories(tern_onnx SYSTEM PRIVATE ${TERN_PROTOZERO_INCLUDE})
target_compile_options(tern_onnx PRIVATE -ffp-contract=off $<$<CONFIG:Release>:-O1>)  # it calls, and computes nothing
set_target_properties(tern_onnx PROPERTIES EXPORT_NAME onnx POSITION_INDEPENDENT_CODE ON VERSION ${PROJECT_VERSION}
                                           SOVERSION ${PROJECT_VERSION_MAJOR})
