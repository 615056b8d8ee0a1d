# SPDX-License-Identifier: Apache-2.0
# Compiles the C++ of a package's interfaces in a few large files: each is a page of code behind a hundred thousand lines of headers.
function(unite_interfaces)
  foreach(kind IN ITEMS cpp fastrtps_c fastrtps_cpp)
    if(TARGET ${PROJECT_NAME}__rosidl_typesupport_${kind})
      set_target_properties(${PROJECT_NAME}__rosidl_typesupport_${kind} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL unite_interfaces)
