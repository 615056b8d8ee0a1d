#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the distribution's Fast DDS, which has the security plug-in, into .secure-dds. Nothing is installed: CMake would find it there beside ROS's own.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

folder=.secure-dds
[ -e "$folder/made" ] && exit
closure() { # of the packages that are not on the machine
    apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$1" |
        grep -E '^lib(fast(rtps|cdr|dds)|foonathan-memory|tinyxml2)[a-z0-9.-]*$' | sort -u
}
packages=$(closure libfastrtps-dev) || { [ "$(id -u)" = 0 ] && apt-get -qq update && packages=$(closure libfastrtps-dev); } || true
[ -n "$packages" ] || { echo "ghostshell: this machine's package lists hold no libfastrtps-dev; run 'apt-get update' or use Debian 12" >&2; exit 1; }
rm -rf "$folder"
mkdir -p "$folder/packages"
(cd "$folder/packages" && apt-get -qq -o APT::Sandbox::User=root download $packages)
for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder"; done
rm -r "$folder/packages"
touch "$folder/made"
