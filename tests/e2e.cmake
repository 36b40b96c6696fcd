# Tests that run the program itself: every e2e/*_test.py is one.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
file(GLOB e2e_scripts CONFIGURE_DEPENDS e2e/*_test.py)
foreach(script IN LISTS e2e_scripts)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME e2e.${name} COMMAND Python3::Interpreter ${script})
  set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 900 PROCESSORS 2
    ENVIRONMENT "DYNPIPE=$<TARGET_FILE:dynpipe>;MPIRUN=${MPIEXEC_EXECUTABLE}")
endforeach()
