# link_package.cmake: makes TO a package whose Python files and folders are links to those of FROM, when it is built.
file(GLOB entries RELATIVE "${FROM}" "${FROM}/*")
foreach(entry IN LISTS entries)
  if(NOT entry STREQUAL "__pycache__")
    file(CREATE_LINK "${FROM}/${entry}" "${TO}/${entry}" SYMBOLIC)
  endif()
endforeach()
