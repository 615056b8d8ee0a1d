#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generate the pairs and train the adapter in three stages: fine-tuning, rejection sampling with more of it, GRPO. Everything that
# was measured lies in OUT beside the adapters. The defaults suit one H100 for eight minutes; PAIRS, the minutes and the batches say
# otherwise, TINY=--tiny tries it out. PYTHON has what requirements/language.txt names.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
python=${PYTHON:-python3}
out=${OUT:-out/training}
work=${WORK:-$out}
base=(${WEIGHTS:+--weights "$WEIGHTS"} ${TINY:-})
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$out" "$work"
told() { echo "== $((SECONDS)) s: $*"; }

jobs=${JOBS:-$(nproc)}
pids=()
if [ ! -e "$work/train.jsonl" ]; then
told pairs
for n in $(seq "$jobs"); do
    nice "$python" -m training.pairs "$work/part$n.jsonl" --pairs $((${PAIRS:-96000} / jobs)) --seed "$n" & pids+=($!)
done
"$python" -m training.pairs "$work/fresh.jsonl" --pairs "${FRESH:-4000}" --seed 1001 & pids+=($!)
"$python" -m training.pairs "$work/paraphrases.jsonl" --validation paraphrases & pids+=($!)
"$python" -m training.pairs "$work/skills.jsonl" --validation skills & pids+=($!)
for pid in "${pids[@]}"; do wait "$pid"; done
cat "$work"/part*.jsonl > "$work/train.jsonl"
for file in paraphrases skills; do
    head -n "${HELD:-1000}" "$work/$file.jsonl" > "$work/$file.cut" && mv "$work/$file.cut" "$work/$file.jsonl"
done
fi
wc -l "$work"/{train,fresh,paraphrases,skills}.jsonl
[ "${ONLY:-}" != pairs ] || exit 0
held=("$work/paraphrases.jsonl" "$work/skills.jsonl")

told before training
[ "${BEFORE:-1}" = 0 ] || "$python" -m training.answers "${base[@]}" --pairs "${held[@]}" --out "$out/before" --batch "${ANSWERS:-100}" 2>&1 | tail -n 4
told fine-tuning
"$python" -m training.sft "${base[@]}" --pairs "$work/train.jsonl" --validation "$work/paraphrases.jsonl" --out "$out/sft" \
    --steps "${SFT_STEPS:-20000}" --minutes "${SFT_MINUTES:-3.3}" --batch "${SFT_BATCH:-48}" --rate "${SFT_RATE:-1e-3}" 2>&1 | grep -a "loss\|rror" | tail -n 60
"$python" -m training.answers "${base[@]}" --adapter "$out/sft" --pairs "${held[@]}" --out "$out/sft" --batch "${ANSWERS:-100}" 2>&1 | tail -n 4

told rejection sampling
"$python" -m training.reject "${base[@]}" --adapter "$out/sft" --pairs "$work/fresh.jsonl" --out "$out/rejection" \
    --limit "${SAMPLED:-1500}" --batch "${SAMPLES:-250}" 2>&1 | tail -n 3
"$python" -m training.sft "${base[@]}" --adapter "$out/sft" --pairs "$out/rejection/kept.jsonl" --out "$out/rejection" \
    --steps "${REFINED_STEPS:-60}" --batch "${REFINED_BATCH:-32}" --rate "${REFINED_RATE:-1e-4}" 2>&1 | grep -a "loss\|rror" | tail -n 8
"$python" -m training.answers "${base[@]}" --adapter "$out/rejection" --pairs "${held[@]}" --out "$out/rejection" --batch "${ANSWERS:-100}" 2>&1 | tail -n 4

told GRPO
"$python" -m training.grpo "${base[@]}" --adapter "$out/sft" --pairs "$work/fresh.jsonl" --out "$out/grpo" \
    --steps "${GRPO_STEPS:-400}" --minutes "${GRPO_MINUTES:-1.3}" --batch "${GRPO_BATCH:-128}" --group "${GRPO_GROUP:-8}" 2>&1 | grep -a "reward\|rror" | tail -n 40
"$python" -m training.answers "${base[@]}" --adapter "$out/grpo" --pairs "${held[@]}" --out "$out/grpo" --batch "${ANSWERS:-100}" 2>&1 | tail -n 4
if [ -z "${TINY:-}" ]; then
    for stage in sft rejection grpo; do
        "$python" -m training.adapter "$out/$stage" "$out/$stage.gguf" ${WEIGHTS:+--weights "$WEIGHTS"}
    done
fi
told done
