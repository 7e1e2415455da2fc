# Debian's and Ubuntu's cross compilers: -DTERN_MACHINE=aarch64, s390x, i686 or another that `apt install g++-MACHINE-linux-gnu`
# knows, -DCMAKE_SYSROOT=FOLDER with that machine's libraries. What is built runs in qemu-user-static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TERN_MACHINE})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TERN_MACHINE)
set(CMAKE_CXX_COMPILER ${TERN_MACHINE}-linux-gnu-g++)
string(REPLACE i686 i386 machine ${TERN_MACHINE})  # the same machine by its folders' and its emulator's name
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${machine}-static -L ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
