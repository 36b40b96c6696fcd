# The program once more on MPICH, where that is installed beside the MPI of everything else, to hold
# the code to what the standard has. Only lib/comm/mpi sees mpi.h, so only that is compiled again.
find_path(MPICH_INCLUDE_DIR mpich/mpi.h)
find_library(MPICH_LIBRARY mpich)
find_program(MPICH_EXEC mpiexec.mpich)
mark_as_advanced(MPICH_INCLUDE_DIR MPICH_LIBRARY MPICH_EXEC)
if(NOT MPICH_INCLUDE_DIR OR NOT MPICH_LIBRARY OR NOT MPICH_EXEC OR DYNPIPE_SANITIZE)
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/comm/mpi/*.cpp)
add_executable(dynpipe_mpich $<TARGET_OBJECTS:dynpipe> ${sources})
target_include_directories(dynpipe_mpich SYSTEM PRIVATE ${MPICH_INCLUDE_DIR}/mpich)
# What is defined in these objects is not taken from dynpipe_comm again, and with --as-needed the
# other MPI, which nothing then asks for, is not linked.
target_link_options(dynpipe_mpich PRIVATE -Wl,--as-needed)
target_link_libraries(dynpipe_mpich PRIVATE ${MPICH_LIBRARY} dynpipe_app)
