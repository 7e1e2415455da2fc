# The package: headers, library, plug-in, find_package(tern) and pkg-config, all movable as one folder.
include(CMakePackageConfigHelpers)
set(tern_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)

# Dependencies outside the system's folders (cuBLAS, a Highway of one's own) are found again after the installation.
set_target_properties(tern PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS tern EXPORT tern_targets FILE_SET HEADERS)
if(TERN_CUDA_BUILT)
  set_target_properties(tern_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS tern_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tern)
endif()

foreach(transport tern_mpi tern_nccl)
  if(TARGET ${transport})
    set_target_properties(${transport} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${transport} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tern)
  endif()
endforeach()

install(EXPORT tern_targets NAMESPACE tern:: FILE ternTargets.cmake DESTINATION ${tern_package_dir})
get_target_property(tern_type tern TYPE)
if(tern_type STREQUAL "STATIC_LIBRARY")
  set(TERN_STATIC ON)
else()
  set(TERN_STATIC OFF)
endif()
configure_package_config_file(cmake/ternConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
                              INSTALL_DESTINATION ${tern_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake
        DESTINATION ${tern_package_dir})

# A static library hands its own needs to whoever links it, a shared one keeps them.
file(RELATIVE_PATH TERN_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH TERN_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH TERN_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(TERN_PC_IMAGES)
if(TERN_IMAGES_BUILT)
  set(TERN_PC_IMAGES " libjpeg libpng")
endif()
set(TERN_PC_PRIVATE $<$<NOT:$<BOOL:${TERN_STATIC}>>:.private>)
file(READ cmake/tern.pc.in tern_pc)
string(CONFIGURE "${tern_pc}" tern_pc @ONLY)
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tern.pc CONTENT "${tern_pc}")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
