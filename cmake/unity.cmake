# TERN_UNITY: sources compiled several at a time. Names in unnamed namespaces of one target must then differ.
function(tern_unity target size)
  if(NOT TERN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  # An included file's unnamed namespace is as good as one's own here.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()
