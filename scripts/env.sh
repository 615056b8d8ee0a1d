# SPDX-License-Identifier: Apache-2.0
# Puts the project's ROS and Python into this bash shell: `source scripts/env.sh`. The wrapper and the tests use it too.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [ ! -e "$GHOSTSHELL_INSTALL/setup.bash" ]; then
    echo "GhostShell is not built yet: run 'make setup' in $GHOSTSHELL_ROOT, then source this file again." >&2
    return 1 2>/dev/null || exit 1
fi

[ "$GHOSTSHELL_ROS" = apt ] || _ghostshell_use_wheels
case ":$PATH:" in *":$GHOSTSHELL_VENV/bin:"*) ;; *) export PATH="$GHOSTSHELL_VENV/bin:$PATH" ;; esac
case $- in *u*) set +u && . "$GHOSTSHELL_INSTALL/setup.bash" && set -u ;; *) . "$GHOSTSHELL_INSTALL/setup.bash" ;; esac

# Sourced again, colcon's script leaves an empty entry, which would let modules of the current folder shadow others.
export PYTHONPATH="${PYTHONPATH%:}"

# colcon's script puts the package first and may drop prefixes without a local_setup file, as the wheels' is.
case ":$AMENT_PREFIX_PATH:" in *":$GHOSTSHELL_VENV:"*) ;; *)
    [ "$GHOSTSHELL_ROS" = apt ] || export AMENT_PREFIX_PATH="$AMENT_PREFIX_PATH:$GHOSTSHELL_VENV" ;;
esac

export ROS_AUTOMATIC_DISCOVERY_RANGE="${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"
export FASTRTPS_DEFAULT_PROFILES_FILE="${FASTRTPS_DEFAULT_PROFILES_FILE:-$GHOSTSHELL_ROOT/config/fastdds.xml}"
if [ -z "${MUJOCO_GL:-}" ]; then
    MUJOCO_GL="$(_ghostshell_gl)"
    [ -n "$MUJOCO_GL" ] && export MUJOCO_GL || unset MUJOCO_GL
fi
unset -f _ghostshell_apt_ros _ghostshell_gl _ghostshell_any _ghostshell_use_wheels _ghostshell_without_ros
