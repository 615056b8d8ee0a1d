#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests of the operator's page need, where it is missing: Debian's Chromium with a font for Chinese, Playwright, and axe-core in .browser.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
. scripts/env.sh

axe=4.14.1
fail() { echo "ghostshell: $*" >&2; exit 1; }

packages=()
command -v chromium >/dev/null || packages+=(chromium)
command -v npm >/dev/null || packages+=(npm)
[ -n "$(fc-list :lang=zh 2>/dev/null)" ] || packages+=(fontconfig fonts-noto-cjk)
if [ ${#packages[@]} -gt 0 ]; then
    sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    echo "ghostshell: installing Debian packages: ${packages[*]} (a minute, once)"
    { "${sudo[@]}" apt-get -qq update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${packages[@]}"; } \
        >log/browser.log 2>&1 || fail "apt-get could not install ${packages[*]}; all of it: log/browser.log"
fi
python3 -c 'import playwright' 2>/dev/null || python3 -m pip install --quiet --disable-pip-version-check -r requirements/browser.txt
grep -qs "\"version\": \"$axe\"" .browser/node_modules/axe-core/package.json ||
    npm install --silent --no-fund --no-audit --ignore-scripts --prefix .browser "axe-core@$axe" || fail "npm could not install axe-core $axe"
