# SluiceCuda.cmake: CUDA where it is installed, and no need for it anywhere else.
#
# Kernels are compiled by nvcc in rules of their own: CMake's CUDA language would have to be on in
# every build or in none. With SLUICE_WITH_CUDA on, libraries use them; otherwise, where nvcc is
# found, they are compiled and their tests built as a check, and linked into nothing.

find_program(SLUICE_NVCC nvcc PATHS /usr/local/cuda/bin)
set(SLUICE_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU generations that kernels are compiled for")
if(SLUICE_WITH_CUDA)
  find_package(CUDAToolkit REQUIRED)
elseif(SLUICE_NVCC)
  find_package(CUDAToolkit QUIET)
endif()
if(SLUICE_WITH_CUDA AND NOT SLUICE_NVCC)
  message(FATAL_ERROR "SLUICE_WITH_CUDA needs nvcc")
endif()

# The kernels of one .cu file as an object; the newest architecture's intermediate code goes in as
# well, for GPUs that come later. <out>: a variable for the object's path. DEPENDS: headers.
function(sluice_cuda_object out source)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(targets "")
  foreach(architecture IN LISTS SLUICE_CUDA_ARCHITECTURES)
    list(APPEND targets "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  list(GET SLUICE_CUDA_ARCHITECTURES -1 newest)
  list(APPEND targets "-gencode=arch=compute_${newest},code=compute_${newest}")
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${source}.o")
  add_custom_command(OUTPUT "${object}"
    COMMAND "${SLUICE_NVCC}" -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
      -std=c++20 -O3 ${targets} -ccbin "${CMAKE_CXX_COMPILER}"
      "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src"
      -Werror all-warnings -Xcompiler=-fPIC,-Wall,-Wextra
    DEPENDS "${source}" ${ARG_DEPENDS}
    COMMENT "Compiling ${source} with ${SLUICE_NVCC}"
    VERBATIM)
  set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${out} "${object}" PARENT_SCOPE)
endfunction()
