# `cmake --install`: the program into bin; what its users read, edit and copy into share/dynpipe,
# laid out as in the sources so that the links in the documents hold.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/dynpipe)

install(TARGETS dynpipe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES README.md LICENSE DESTINATION ${share})
install(DIRECTORY models DESTINATION ${share} FILES_MATCHING PATTERN *.json PATTERN *.md)
install(DIRECTORY slurm DESTINATION ${share} FILES_MATCHING PATTERN *.sbatch PATTERN *.md)
install(FILES data/README.md DESTINATION ${share}/data)
install(FILES lib/README.md DESTINATION ${share}/lib)

# The module file finds the program from its own place, wherever the tree is moved to.
file(RELATIVE_PATH bin_from_module
  ${CMAKE_INSTALL_FULL_DATADIR}/dynpipe/modulefiles/dynpipe ${CMAKE_INSTALL_FULL_BINDIR})
configure_file(scripts/modulefile.in modulefile @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${share}/modulefiles/dynpipe
  RENAME ${PROJECT_VERSION})
