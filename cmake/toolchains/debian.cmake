# Debian's cross compilers: -DTERN_MACHINE=aarch64, s390x or i686 (apt install g++-MACHINE-linux-gnu) and
# -DCMAKE_SYSROOT=FOLDER with that machine's libraries; scripts/machines.sh does all of it. Tests run in
# qemu-user-static, those of i686 natively.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TERN_MACHINE})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TERN_MACHINE)
set(CMAKE_CXX_COMPILER ${TERN_MACHINE}-linux-gnu-g++)
if(TERN_MACHINE STREQUAL i686)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_SYSROOT}/lib/ld-linux.so.2 --library-path
      ${CMAKE_SYSROOT}/lib/i386-linux-gnu:${CMAKE_SYSROOT}/usr/lib/i386-linux-gnu)
else()
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${TERN_MACHINE}-static -L ${CMAKE_SYSROOT})
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
