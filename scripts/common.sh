# SPDX-License-Identifier: Apache-2.0
# Where things lie and which ROS is used; read by scripts/setup.sh and scripts/env.sh.

GHOSTSHELL_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

# Whether ROS 2 Jazzy from Debian packages is sourced: then it is used instead of the wheels.
_ghostshell_apt_ros() {
    [ "${ROS_DISTRO:-}" = jazzy ] || return 1
    local prefixes prefix
    IFS=: read -ra prefixes <<<"${AMENT_PREFIX_PATH:-}"
    for prefix in "${prefixes[@]}"; do
        case "$prefix" in "$GHOSTSHELL_ROOT"/*) continue ;; esac
        [ -e "$prefix/share/rclpy/package.xml" ] && return 0
    done
    return 1
}

# What MuJoCo can render with on this machine: egl, osmesa or nothing.
_ghostshell_gl() {
    local egl=(/usr/lib/*-linux-gnu/libEGL.so.1 /usr/lib64/libEGL.so.1)
    local drivers=(/usr/lib/*-linux-gnu/{dri/swrast_dri.so,libgallium-*.so,libEGL_nvidia.so.0} /usr/lib64/{dri/swrast_dri.so,libgallium-*.so,libEGL_nvidia.so.0})
    local osmesa=(/usr/lib/*-linux-gnu/libOSMesa.so.[68] /usr/lib64/libOSMesa.so.[68])
    if _ghostshell_any "${egl[@]}" && _ghostshell_any "${drivers[@]}"; then
        echo egl
    elif _ghostshell_any "${osmesa[@]}"; then
        echo osmesa
    fi
}

_ghostshell_any() {
    local file
    for file; do [ -e "$file" ] && return 0; done
    return 1
}

# Make the wheels the only ROS of this shell. Another one's rclpy, or the build of another clone, must not be found before theirs.
_ghostshell_use_wheels() {
    unset ROS_DISTRO ROS_VERSION ROS_PYTHON_VERSION RMW_IMPLEMENTATION COLCON_PREFIX_PATH
    export AMENT_PREFIX_PATH="$GHOSTSHELL_VENV" CMAKE_PREFIX_PATH="$GHOSTSHELL_VENV"
    [ -z "${PYTHONPATH:-}" ] || export PYTHONPATH="$(_ghostshell_without_ros "$PYTHONPATH")"
    [ -z "${LD_LIBRARY_PATH:-}" ] || export LD_LIBRARY_PATH="$(_ghostshell_without_ros "$LD_LIBRARY_PATH")"
}

_ghostshell_without_ros() {
    local entries entry kept=
    IFS=: read -ra entries <<<"$1"
    for entry in "${entries[@]}"; do
        case "$entry" in '' | /opt/ros/* | */install/ghostshell/*) ;; *) kept="$kept${kept:+:}$entry" ;; esac
    done
    echo "$kept"
}

# The two kinds of ROS have folders of their own, so that a shell with and one without ROS do not undo each other's build.
if _ghostshell_apt_ros; then
    GHOSTSHELL_ROS=apt GHOSTSHELL_VENV="$GHOSTSHELL_ROOT/.venv-apt" GHOSTSHELL_BUILD=build-apt GHOSTSHELL_INSTALL="$GHOSTSHELL_ROOT/install-apt"
else
    GHOSTSHELL_ROS=wheels GHOSTSHELL_VENV="$GHOSTSHELL_ROOT/.venv" GHOSTSHELL_BUILD=build GHOSTSHELL_INSTALL="$GHOSTSHELL_ROOT/install"
fi
