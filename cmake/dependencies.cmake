# What the library itself needs. Nothing is downloaded by a build: a missing package is named as apt calls it.
macro(tern_require package title apt_package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${title} was not found: apt install ${apt_package}, or name its prefix in CMAKE_PREFIX_PATH")
  endif()
endmacro()

tern_require(OpenMP "OpenMP for C++" "g++ (clang: libomp-dev)" COMPONENTS CXX)
tern_require(ZLIB "zlib" zlib1g-dev)
tern_require(hwy "Highway" libhwy-dev CONFIG)
