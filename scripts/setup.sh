#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes everything the project needs: Debian packages, the virtual environment, the build. What is up to date is left alone.
set -euo pipefail
shopt -s nullglob
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
cd "$GHOSTSHELL_ROOT"

venv=$GHOSTSHELL_VENV
logs=$GHOSTSHELL_ROOT/log
pythons="3.10 3.11 3.12 3.13"                    # those the wheels exist for
packages=() lacking=() lacking_optional=()       # Debian packages, and in words what they are for

say() { echo "ghostshell: $*"; }
fail() { echo "ghostshell: $*" >&2; exit 1; }
need() { packages+=($1); lacking+=("$2"); }
want() { packages+=($1); lacking_optional+=("$2"); }

# The stamps: what the environment and the build were made from. Each is written last, so a broken run is repeated.
environment_stamp() {
    { echo "$GHOSTSHELL_ROOT $GHOSTSHELL_ROS"; readlink -f "$venv/bin/python3" || true
      cat requirements/{constraints,ros-wheels,run,page,arms,console,dev}.txt scripts/repair_wheels.py; } | sha256sum
}
build_stamp() {
    { cat "$venv/.made_from" CMakeLists.txt package.xml setup.cfg bench/pyproject.toml msg/*.msg srv/*.srv action/*.action
      find skill_kernel function_tokens reflexes planners ghostshell_ros launch config -name __pycache__ -prune -o -type f -print | LC_ALL=C sort; } | sha256sum
}
compat_stamp() { { cat "$venv/.made_from"; find compat -type f | LC_ALL=C sort | xargs cat; } | sha256sum; }
environment_is_current() { [ -x "$venv/bin/python3" ] && [ "$(environment_stamp)" = "$(cat "$venv/.made_from" 2>/dev/null)" ]; }
compat_is_current() { [ "$GHOSTSHELL_ROS" = apt ] || [ "$(compat_stamp)" = "$(cat "$venv/.compat_from" 2>/dev/null)" ]; }
build_is_current() { [ -e "$GHOSTSHELL_INSTALL/setup.bash" ] && [ "$(build_stamp)" = "$(cat "$GHOSTSHELL_INSTALL/.made_from" 2>/dev/null)" ]; }

# `setup.sh --check` only says, by its exit status, whether everything is up to date; `setup.sh --moveit` makes moveit_msgs as well.
[ "${1:-}" != --check ] || { environment_is_current && compat_is_current && build_is_current; exit; }

# Sets `python` to the first interpreter the wheels exist for.
find_python() {
    local candidate path version seen=
    for candidate in ${PYTHON:-python3 python3.12 python3.11 python3.10 python3.13}; do
        path=$(command -v "$candidate") || continue
        # The environment's own interpreter goes when the environment is made anew; what it was made from stays.
        path=$("$path" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))' 2>/dev/null) || continue
        version=$("$path" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case " $pythons " in *" $version "*) python=$path; return ;; esac
        seen="$seen${seen:+, }$version ($path)"
    done
    [ -n "$seen" ] || [ -n "${PYTHON:-}" ] || { python=; return; }
    fail "Python 3.10 to 3.13 is needed, but there is ${seen:-no ${PYTHON:-}}; install one and name it: PYTHON=/path/to/python3 make setup"
}

check_python() {
    find_python
    [ -n "$python" ] || { need "python3 python3-venv python3-dev" "Python 3.10 to 3.13"; return; }
    local real prefix=
    real=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
    case "$real" in /usr/bin/python3.*) prefix=${real#/usr/bin/} ;; esac
    "$python" -c 'import ensurepip, venv' 2>/dev/null || need "${prefix:-python3}-venv" "Python's venv module for $real"
    "$python" -c 'import os, sysconfig as s; os.stat(os.path.join(s.get_path("include"), "Python.h"))' 2>/dev/null ||
        need "${prefix:-python3}-dev" "Python's header files for $real"
}

check_machine() {
    [ "$GHOSTSHELL_ROS" = apt ] || [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "the ROS 2 wheels exist for Linux on x86-64 only, this is $(uname -sm); install ROS 2 Jazzy from its Debian packages and source it"
    check_python
    command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || need g++ "a C++ compiler"
    command -v cmake >/dev/null || need cmake "cmake"
    command -v make >/dev/null || need make "make"
    [ -n "$(_ghostshell_gl)" ] || want "libegl1 libgl1-mesa-dri" "EGL or OSMesa (for camera images)"
    command -v espeak-ng >/dev/null || want espeak-ng "espeak-ng (for audible speech)"
}

join() { local word all=${1:-}; for word in "${@:2}"; do all="$all, $word"; done; echo "$all"; }

install_packages() {
    local sudo=() log=$logs/apt.log
    if ! command -v apt-get >/dev/null; then
        [ ${#lacking[@]} -eq 0 ] || fail "missing: $(join "${lacking[@]}"); install it with this system's package manager (there is no apt-get)"
        say "going on without $(join "${lacking_optional[@]}")"
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        sudo=(sudo -n)
        sudo -n true 2>/dev/null || fail "missing: $(join "${lacking[@]}" "${lacking_optional[@]}"); run this once, then the same command again:
    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${packages[*]}"
    fi
    say "installing Debian packages: ${packages[*]}"
    mkdir -p "$logs"
    { "${sudo[@]}" apt-get update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"; } \
        >"$log" 2>&1 || fail "apt-get could not install ${packages[*]} ($(grep '^E:' "$log" | tail -n 1 || true)); is the network reachable? All of it: $log"
}

make_environment() {
    local log=$logs/pip.log with=(-r requirements/run.txt -r requirements/page.txt -r requirements/arms.txt -r requirements/console.txt -r requirements/dev.txt) options=()
    say "installing Python packages into ${venv#"$GHOSTSHELL_ROOT"/} (a minute or two, once)"
    mkdir -p "$logs"
    rm -rf "$venv"
    if [ "$GHOSTSHELL_ROS" = apt ]; then
        # ROS's own Python code is built against the system's NumPy, so that one stays.
        options=(--system-site-packages)
        # And its launch_testing brings a plugin that pytest 9 refuses.
        { grep -vE '^(numpy|pytest)==' requirements/constraints.txt; printf '%s\n' 'numpy<2' 'pytest<9'; } >"$logs/constraints.txt"
        with+=(-c "$logs/constraints.txt" colcon-common-extensions)
    else
        with+=(-c requirements/constraints.txt -r requirements/ros-wheels.txt)
    fi
    "$python" -m venv "${options[@]}" "$venv" >"$log" 2>&1 || fail "$python could not make a virtual environment; see $log"
    "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --retries 2 "${with[@]}" >"$log" 2>&1 || {
        ! grep -qE 'NewConnectionError|ConnectTimeout|ConnectionError|ProxyError|name resolution|Max retries|Network is unreachable' "$log" ||
            fail "no Python package index can be reached; connect this machine to the network (or set pip's index) and run it again. All of it: $log"
        fail "pip could not install the packages ($(grep '^ERROR' "$log" | tail -n 1 || true)). All of it: $log"
    }
    [ "$GHOSTSHELL_ROS" = apt ] || "$venv/bin/python3" scripts/repair_wheels.py >>"$log"
    environment_stamp >"$venv/.made_from"
}

# The C++ of interfaces is compiled in a few large files.
unity="-DCMAKE_PROJECT_INCLUDE=$GHOSTSHELL_ROOT/scripts/unity.cmake"

# The interfaces that ROS has and the wheels lack, straight into the environment.
make_compat() {
    local package log build
    mkdir -p "$logs"
    for package in "$@"; do
        log=$logs/$package.log build=$GHOSTSHELL_BUILD/$package
        say "building $package into the environment (ten seconds, moveit_msgs a minute, once)"
        rm -rf "$build"
        ( _ghostshell_use_wheels
          export PATH="$venv/bin:$PATH"
          cmake -S "compat/$package" -B "$build" "-DPython3_EXECUTABLE=$venv/bin/python3" "-DCMAKE_INSTALL_PREFIX=$venv" \
              -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF "$unity" && cmake --build "$build" -j 2 && cmake --install "$build" ) >"$log" 2>&1 ||
            fail "$package could not be built ($(grep -m 1 -iE 'error' "$log" || true)). All of it: $log"
        rm -rf "$build"
    done
}

build() {
    local log=$logs/colcon.log python3=$venv/bin/python3
    say "building the ROS package (two to four minutes at first, seconds later)"
    mkdir -p "$logs"
    [ "$GHOSTSHELL_ROS" = apt ] || _ghostshell_use_wheels
    # A build for another place or interpreter cannot be mended, and links to files that are gone must not stay.
    grep -qsxF "$(sha256sum <"$venv/.made_from")" "$GHOSTSHELL_BUILD/.made_for" || rm -rf "$GHOSTSHELL_BUILD" "$GHOSTSHELL_INSTALL"
    mkdir -p "$GHOSTSHELL_BUILD" && sha256sum <"$venv/.made_from" >"$GHOSTSHELL_BUILD/.made_for"
    [ ! -d "$GHOSTSHELL_INSTALL" ] || find "$GHOSTSHELL_INSTALL" -xtype l -delete
    PATH="$venv/bin:$PATH" colcon --log-base "$logs/colcon" build --symlink-install \
        --build-base "$GHOSTSHELL_BUILD" --install-base "$GHOSTSHELL_INSTALL" --event-handlers console_direct+ \
        --cmake-args "-DPython3_EXECUTABLE=$python3" -DBUILD_TESTING=OFF "$unity" >"$log" 2>&1 ||
        fail "the build failed ($(grep -m 1 -iE 'error' "$log" || true)). All of it: $log"
    # The benchmarks and the simulated model are a package of their own.
    "$python3" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation --no-index \
        --editable bench >>"$log" 2>&1 || fail "the package in bench/ could not be installed. All of it: $log"
    build_stamp >"$GHOSTSHELL_INSTALL/.made_from"
}

exec 9<"$GHOSTSHELL_ROOT"
flock -n 9 || { say "waiting for another set-up to end"; flock 9; }
moveit_is_wanted() { [ "${1:-}" = --moveit ] && [ "$GHOSTSHELL_ROS" != apt ] && [ ! -e "$venv/share/moveit_msgs" ]; }
environment_is_current && compat_is_current && build_is_current && ! moveit_is_wanted "$@" && exit 0
check_machine
[ ${#packages[@]} -eq 0 ] || { install_packages; check_machine; }
environment_is_current || make_environment
compat_is_current || { make_compat {control,nav2,tf2,vision}_msgs && compat_stamp >"$venv/.compat_from"; }
build_is_current || build
# What MoveIt's action is made of, for its tests; the two that it needs come first.
! moveit_is_wanted "$@" || make_compat {object_recognition,octomap,moveit}_msgs
