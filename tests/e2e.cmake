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
function(dynpipe_e2e_test name processors)
  add_test(NAME e2e.${name} COMMAND Python3::Interpreter ${ARGN})
  set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 900 PROCESSORS ${processors}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${e2e_environment}")
endfunction()
foreach(script IN LISTS e2e_scripts ITEMS ${CMAKE_CURRENT_SOURCE_DIR}/slurm/slurm_test.py)
  get_filename_component(name ${script} NAME_WE)
  if(name STREQUAL bad_input_test)  # many short runs, which may share the cores: class by class
    file(STRINGS ${script} classes REGEX "^class [A-Za-z]+Test\\(")
    foreach(class IN LISTS classes)
      string(REGEX REPLACE "^class ([A-Za-z]+).*" "\\1" class "${class}")
      dynpipe_e2e_test(${name}.${class} 1 ${script} ${class})
    endforeach()
  else()
    dynpipe_e2e_test(${name} 2 ${script})
  endif()
endforeach()
