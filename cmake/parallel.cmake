# The transports that need a library: libtern_mpi.so and libtern_nccl.so, opened at run time. Without MPI and NCCL the
# library runs single processes and threads.
set(TERN_MPI AUTO CACHE STRING "Build the MPI transport: AUTO (when MPI is found), ON or OFF")
set_property(CACHE TERN_MPI PROPERTY STRINGS AUTO ON OFF)

set(TERN_MPI_BUILT OFF)
if(TERN_MPI STREQUAL "OFF")
  set(tern_mpi_reason "switched off by TERN_MPI=OFF")
else()
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(TERN_MPI_BUILT ON)
    add_library(tern_mpi MODULE src/parallel/mpi/transport.cpp)
    # Like a mode, it needs only the headers.
    target_include_directories(tern_mpi PRIVATE include)
    target_link_libraries(tern_mpi PRIVATE MPI::MPI_CXX tern_warnings)
    set_target_properties(tern_mpi PROPERTIES CXX_STANDARD 20)
  else()
    set(tern_mpi_reason "MPI was not found (apt install libopenmpi-dev openmpi-bin)")
    if(TERN_MPI STREQUAL "ON")
      message(FATAL_ERROR "TERN_MPI=ON: ${tern_mpi_reason}")
    endif()
  endif()
endif()

set(TERN_NCCL_BUILT OFF)
set(tern_nccl_reason "it comes with the cuda mode")
if(TERN_CUDA_BUILT)
  find_path(TERN_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  mark_as_advanced(TERN_NCCL_INCLUDE_DIR)
  if(TERN_NCCL_INCLUDE_DIR)
    set(TERN_NCCL_BUILT ON)
    add_library(tern_nccl MODULE src/parallel/nccl/transport.cpp src/parallel/nccl/copies.cu
                src/parallel/nccl/meter.cu src/parallel/nccl/peers.cu)
    target_include_directories(tern_nccl PRIVATE include src)
    target_include_directories(tern_nccl SYSTEM PRIVATE ${TERN_NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(tern_nccl PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS} tern_warnings)
    # libnccl.so.2 is opened from here, and may be beside CUDA's libraries.
    # CUDA_STANDARD: see cmake/cuda.cmake.
    set_target_properties(tern_nccl PROPERTIES CXX_STANDARD 20 CUDA_STANDARD 17 POSITION_INDEPENDENT_CODE ON
                                               CUDA_RUNTIME_LIBRARY Static BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR}"
                                               INSTALL_RPATH "${CUDAToolkit_LIBRARY_DIR}")
    target_compile_options(tern_nccl PRIVATE
                           $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xcompiler=-Wall,-Wextra>)
  else()
    set(tern_nccl_reason "nccl.h was not found (libnccl-dev of NVIDIA's repository)")
  endif()
endif()
