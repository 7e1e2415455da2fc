# tern_unity(target size [source ...]): with TERN_UNITY, sources are compiled `size` at a time, except the listed ones,
# whose unnamed namespaces share names with other files.
function(tern_unity target size)
  if(NOT TERN_UNITY)
    return()
  endif()
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  # An included file's unnamed namespace is harmless here.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()
