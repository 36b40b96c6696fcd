# Tests that run the program itself: every e2e/*_test.py is one, and slurm/slurm_test.py. Exit code
# 77: skipped.
include(python.cmake)
set(e2e_environment "DYNPIPE=$<TARGET_FILE:dynpipe>" "DYNPIPE_BUILD=${PROJECT_BINARY_DIR}"
  "XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache"
  "MPIRUN=${MPIEXEC_EXECUTABLE}")
if(TARGET dynpipe_mpich)
  list(APPEND e2e_environment "DYNPIPE_MPICH=$<TARGET_FILE:dynpipe_mpich>"
    "MPICH_EXEC=${MPICH_EXEC}")
endif()
file(GLOB e2e_scripts CONFIGURE_DEPENDS e2e/*_test.py)
foreach(script IN LISTS e2e_scripts ITEMS ${CMAKE_CURRENT_SOURCE_DIR}/slurm/slurm_test.py)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME e2e.${name} COMMAND Python3::Interpreter ${script})
  set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 900 PROCESSORS 2 SKIP_RETURN_CODE 77
    ENVIRONMENT "${e2e_environment}")
endforeach()
