# Style checks, as tests. Each is skipped where its tool is absent (exit code 77).
include(python.cmake)
set(scripts ${PROJECT_SOURCE_DIR}/scripts)

add_test(NAME style.floors COMMAND Python3::Interpreter ${scripts}/check_floors.py)
add_test(NAME style.floors_self_test
  COMMAND Python3::Interpreter ${scripts}/check_floors.py --self-test)
file(GLOB shell_scripts CONFIGURE_DEPENDS ${scripts}/*.sh ${PROJECT_SOURCE_DIR}/slurm/*.sbatch)
foreach(script IN LISTS shell_scripts ITEMS ${PROJECT_SOURCE_DIR}/.ci/run)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME style.syntax.${name} COMMAND bash -n ${script})
endforeach()
add_test(NAME style.format COMMAND bash ${scripts}/check_format.sh)
set_tests_properties(style.format PROPERTIES SKIP_RETURN_CODE 77)
if(NOT DYNPIPE_SANITIZE)  # the same sources: once is enough
  add_test(NAME style.tidy COMMAND Python3::Interpreter ${scripts}/check_tidy.py
    ${PROJECT_BINARY_DIR})
  set_tests_properties(style.tidy PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600
    PROCESSORS 2)
  add_test(NAME style.tidy_self_test
    COMMAND Python3::Interpreter ${scripts}/check_tidy.py --self-test)
  set_tests_properties(style.tidy_self_test PROPERTIES SKIP_RETURN_CODE 77)
endif()
