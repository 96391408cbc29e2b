#!/usr/bin/env bash
# Play the newcomer: build the wheel, install it into a fresh environment, run each Python block and
# each quick command of the README, each example, and the page of integrations with the real packages.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${PYTHON:-python3}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet build hatchling
# What is committed, without what lies around in a working copy.
mkdir "$work/source"
git -C "$root" archive HEAD | tar -x -C "$work/source"
root="$work/source"
for name in first second; do  # the same bytes each time
    "$work/venv/bin/python" -m build --no-isolation --outdir "$work/$name" "$root" > /dev/null
done
(cd "$work/first" && sha256sum ./*.whl ./*.tar.gz) > "$work/sums"
(cd "$work/second" && sha256sum --check --quiet "$work/sums")
echo "wheel and sdist are reproducible"

"$work/venv/bin/python" -m pip install --quiet "$work"/first/*.whl
mkdir "$work/empty" && cd "$work/empty"
export ELMO_CACHE="$work/cache" PATH="$work/venv/bin:$PATH"
unset PYTHONPATH
python "$root/tests/run_blocks.py" "$root/README.md"
echo "== without what macOS and Windows lack"
python "$root/tests/run_blocks.py" --other-system "$root/README.md"
for example in "$root"/examples/*.py; do
    echo "== ${example##*/}"
    python "$example"
done
printf 'Oil prices fell .\nIt rained .\n' > texts.txt
elmo --version
elmo classify predict "Oil prices fell on Monday as supply fears eased ."
elmo embed texts.txt --out vectors.npz --quiet
python -c 'import elmo; print(elmo.load_vectors("vectors.npz").vectors.shape)'
elmo score "Oil prices fell ." --format tsv --unit bits
elmo predict "She opened the ___ and looked inside ." --top 3
elmo info > /dev/null
elmo completion bash > completion.sh && bash -n completion.sh

echo "== what is missing is said in one line, with exit code 2"
fails() {  # PATTERN COMMAND...
    local pattern="$1" status=0
    shift
    "$@" > /dev/null 2> message || status=$?
    if [[ $status != 2 || $(wc -l < message) != 1 ]] || ! grep -q -- "$pattern" message; then
        echo "$*: expected exit code 2 and one line with $pattern, got $status:" && cat message && exit 1
    fi
    cat message
}
needs() {  # EXTRA COMMAND...
    local extra="$1"
    shift
    fails "pip install 'elmo-embeddings\[$extra\]'" "$@"
}
cp texts.txt texts.txt.zst
printf '1\tOil\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n' > tags.conllu
fails nowhere elmo convert nowhere out
needs study elmo static texts.txt --method skipgram --min-count 1 --out vectors.txt --quiet
needs study elmo study --out study --quiet
needs official elmo embed texts.txt --out vectors.h5 --quiet
needs parquet elmo embed texts.txt --out vectors.parquet --quiet
needs zstd elmo embed texts.txt.zst --out zstd.npz --quiet
needs ray elmo embed texts.txt --engine ray --out ray.parquet --quiet
needs serve elmo serve
needs spacy elmo pretrain texts.txt --tokenizer spacy:de --out german --quiet
needs track elmo pretrain texts.txt --tensorboard --out tracked --quiet
needs datasets elmo embed hf:imdb --out imdb.npz --quiet
needs tasks elmo tag train tags.conllu --out tags --quiet
needs sentence-transformers elmo convert default sentences --to sentence-transformers

echo "== the integrations, with the real packages"
wheel="$(ls "$work"/first/*.whl)"
python -m pip install --quiet "$wheel[datasets,sentence-transformers,spacy,study]"
python "$root/tests/run_blocks.py" "$root/docs/integrations.md"
echo "the newcomer is in"
