# The interpreter of the tests: of several, one that has h5py, for those that read HDF5 files.
foreach(candidate IN ITEMS python3 /usr/bin/python3)
  if(NOT DEFINED Python3_EXECUTABLE)
    execute_process(COMMAND ${candidate} -c "import h5py, sys; print(sys.executable)"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed EQUAL 0)
      set(Python3_EXECUTABLE ${found})
    endif()
  endif()
endforeach()
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
