#!/usr/bin/env bash
# Everything that needs a GPU, in one call: builds with the cuda mode in build-gpu/, runs the tests, the examples on
# real MNIST, compute-sanitizer, the benchmarks and PyTorch and JAX beside them, and writes tables and logs to the
# folder OUT.
#
# usage: scripts/gpu.sh OUT [--only PART,...] [--data DIR] [--budget PART=SECONDS]...
#
# The parts are tests, examples, sanitizer, benchmarks, peers, study, overfit, tern and scale; the first five by
# default. `study` trains whole networks by mode and batch size (docs/study.md). It runs only when it is named, and
# takes about half an hour, in calls of --budget study=SECONDS: each continues with the cell in which the last one ran
# out of time. These run only when they are named, too: `overfit`, AlexNet and GoogLeNet memorising a batch of 32
# images; `tern`; and `scale`, data-parallel training on all GPUs beside PyTorch's. TERN_STUDY_IMAGES=DIR names a folder
# of photographs for these networks; otherwise images are synthetic. Without a network, TERN_DEPENDENCIES=DIR names a
# prefix with Highway, Catch2, CLI11, nlohmann-json and zlib, and nothing is installed. TERN_CUDA_ARCHITECTURES defaults
# to that of this machine's GPU. A part that runs out of time says so.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parts=tests,examples,sanitizer,benchmarks,peers
data=${TERN_DATA_DIR:-}
out=
declare -A budget=([tests]=300 [examples]=300 [sanitizer]=200 [benchmarks]=240 [peers]=300 [study]=480 [overfit]=120
                   [tern]=420 [scale]=600)
while (($#)); do
  case $1 in
    --only | --data | --budget) (($# > 1)) || fail "$1 wants a value" ;;&
    --only) parts=$2; shift 2 ;;
    --data) data=$2; shift 2 ;;
    --budget) budget[${2%%=*}]=${2#*=}; shift 2 ;;
    -*) fail "unknown option $1; see the head of this file" ;;
    *) out=$1; shift ;;
  esac
done
[[ -n $out ]] || fail "usage: scripts/gpu.sh OUT [--only PART,...] [--data DIR] [--budget PART=SECONDS]"
for part in ${parts//,/ }; do [[ -n ${budget[$part]:-} ]] || fail "there is no part $part"; done
[[ -n $data || ! -d $root/../shared/data/mnist ]] || data=$root/../shared/data/mnist
if [[ -n $data ]]; then
  data=$(cd "$data" && pwd)
  export TERN_DATA_DIR=$data
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
folder=$root/build-gpu
summary=$out/summary.md
failures=0

have_gpu || fail "nvidia-smi shows no GPU here"
have_nvcc || fail "there is no nvcc here; NVIDIA's cuda-toolkit (12 or later) brings it"

commit=${TERN_COMMIT:-$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)}
{
  echo "# GPU run"
  echo
  echo "- commit: $commit"
  echo "- GPU: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | paste -sd ';')"
  echo "- processor: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(cores) cores"
  echo "- compilers: $(c++ --version | head -n 1); nvcc $(nvcc --version | sed -n 's/.*release //p')"
  echo
  echo "| part | result | seconds |"
  echo "|---|---|---|"
} >"$summary"

wanted() { [[ ,$parts, == *",$1,"* ]]; }
begin() { began=$SECONDS deadline=$((SECONDS + ${budget[$1]:-1000000})); }
left() { echo $((deadline > SECONDS ? deadline - SECONDS : 1)); }
# Runs a command within the part's remaining time; 124 if that ran out.
limited() { timeout --kill-after=10 "$(left)" "$@"; }
# finish PART STATUS REMARK
finish() {
  local result=passed
  if (($2 == 124)); then result="out of time"; elif (($2)); then result=FAILED; fi
  (($2)) && failures=$((failures + 1))
  echo "| $1 | $result${3:+: $3} | $((SECONDS - began)) |" >>"$summary"
  say "== $1: $result${3:+: $3}"
}

# ---- build ----------------------------------------------------------------------------------------------------------
need_to_build
need header catch2 catch2 "Catch2, for the tests"
need header nlohmann/json.hpp nlohmann-json3-dev "JSON, for the benchmarks"
install_missing

targets=(tern_cuda)
wanted tern && targets+=(tern_program)
wanted examples && targets+=(mnist_mlp mnist_cnn switch_modes own_operator)
wanted sanitizer && targets+=(tern_test_operators)
if wanted benchmarks || wanted peers; then targets+=(modes); fi
wanted scale && targets+=(benchmarks/scale tern_nccl tern_test_parallel)
wanted study && targets+=(study)
wanted overfit && targets+=(overfit_check)
wanted tests && targets=()
begin build
status=0
{
  configure "$folder" -DTERN_CUDA=ON "-DTERN_CUDA_ARCHITECTURES=$(cuda_architectures)" \
    -DTERN_BUILD_TESTS=ON -DTERN_BUILD_EXAMPLES=ON -DTERN_BUILD_BENCHMARKS=ON &&
    for target in dispatch_bench operators_bench; do
      if wanted benchmarks && ! wanted tests && has_targets "$folder" $target; then targets+=("$target"); fi
    done &&
    build "$folder" "${targets[@]}"
} >"$out/build.log" 2>&1 || status=1
finish build $status
if ((status)); then
  tail -n 40 "$out/build.log" >&2
  exit 1
fi

# ---- tests ----------------------------------------------------------------------------------------------------------
if wanted tests; then
  begin tests
  status=0
  # GPU tests first, then the rest.
  {
    limited ctest --test-dir "$folder" --output-on-failure -L gpu --parallel 4 || status=$?
    cp "$folder/Testing/Temporary/LastTest.log" "$folder/gpu_tests.log"
    limited ctest --test-dir "$folder" --output-on-failure -LE gpu --parallel 8 || {
      code=$?
      ((status)) || status=$code
    }
  } >"$out/tests.log" 2>&1
  ran=$(sed -n 's/^mode cuda: \([0-9]*\) generated cases ran.*/\1/p' "$folder/gpu_tests.log" | paste -sd + |
    sed 's/+/ + /g')
  if [[ -z $ran ]]; then
    status=1
    grep -h '^mode cuda: SKIPPED' "$folder/gpu_tests.log" >>"$out/tests.log" || true
  fi
  finish tests $status "${ran:-no} generated cases on cuda; $(grep -h 'tests passed' "$out/tests.log" | paste -sd ';')"
fi

# ---- examples -------------------------------------------------------------------------------------------------------
if wanted examples; then
  begin examples
  status=0
  table=$out/examples.md log=$folder/examples.log
  : >"$log"
  {
    echo "Real MNIST: ${data:-the cache folder, else synthetic digits}. Commit $commit."
    echo
    echo "| program | mode | seed | test accuracy | images/s of the last epoch | seconds in all |"
    echo "|---|---|---|---|---|---|"
  } >"$table"
  for mode in cuda vectorized; do
    for program in mnist_cnn mnist_mlp; do
      for seed in 1 2 3; do
        ((SECONDS < deadline)) || { status=124; break 3; }
        start=$SECONDS
        code=0
        limited "$folder/examples/$program" --mode $mode --seed $seed ${data:+--data "$data"} \
          >"$folder/example.log" 2>&1 || code=$?
        ((code == 0)) || status=$code
        accuracy=$(sed -n 's/^test accuracy: //p' "$folder/example.log")
        rate=$(sed -n 's/.*, \([0-9]*\) images\/s$/\1/p' "$folder/example.log" | tail -n 1)
        echo "| $program | $mode | $seed | ${accuracy:-failed with $code} | $rate | $((SECONDS - start)) |" >>"$table"
        { echo "== $program $mode seed $seed"; cat "$folder/example.log"; } >>"$log"
      done
    done
  done
  for program in switch_modes own_operator; do
    echo "== $program" >>"$log"
    limited "$folder/examples/$program" >>"$log" 2>&1 || status=$?
  done
  { echo; echo '```'; cat "$log"; echo '```'; } >>"$table"
  finish examples $status "$(grep -c '^| mnist.*%' "$table") of 12 runs reached an accuracy"
fi

# ---- compute-sanitizer ----------------------------------------------------------------------------------------------
if wanted sanitizer; then
  begin sanitizer
  log=$out/sanitizer.log
  status=0 clean=0
  # sanitize TOOL FAMILY: the operators of a family on the catalogue's samples
  sanitize() {
    TERN_TEST_OPERATOR=$2 limited compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 \
      "$folder/tests/tern_test_operators" "catalogue: cuda"
  }
  if ! have_command compute-sanitizer; then
    echo "compute-sanitizer is not installed" >"$log"
    finish sanitizer 0 "not run: it is not installed"
  elif
    sanitize memcheck update >"$log" 2>&1
    [[ $(<"$log") =~ "not supported"|"nternal"\ "rror" ]] || ! grep -q 'ERROR SUMMARY' "$log"
  then
    finish sanitizer 0 "not run: it does not work on this machine, see sanitizer.log"
  else
    echo "| tool | family | result | seconds |" >"$log"
    for tool in memcheck racecheck; do
      for family in dot conv pooling normalization loss reduction activation arithmetic shape update view; do
        ((SECONDS < deadline)) || { status=124; break 2; }
        start=$SECONDS code=0
        sanitize $tool $family >"$folder/sanitizer.log" 2>&1 || code=$?
        case $code in
          0) result=clean clean=$((clean + 1)) ;;
          124) result="out of time" ;;
          *) result="FAILED with $code" ;;
        esac
        echo "| $tool | $family | $result | $((SECONDS - start)) |" >>"$log"
        ((code == 0)) || { head -n 120 "$folder/sanitizer.log" >>"$log"; ((status && status != 124)) || status=$code; }
      done
    done
    finish sanitizer $status "$clean of 22 runs clean"
  fi
fi

# ---- benchmarks -----------------------------------------------------------------------------------------------------
if wanted benchmarks; then
  begin benchmarks
  status=0
  mkdir -p "$folder/results"
  limited "$folder/benchmarks/modes" --seconds 0.3 --out "$folder/results" --label "Commit $commit, scripts/gpu.sh." \
    >"$folder/results/log" 2>&1 || status=$?
  cp "$folder/results/modes.json" "$out/" 2>/dev/null || true
  cp "$folder/results/modes.md" "$out/benchmarks.md" 2>/dev/null || cp "$folder/results/log" "$out/benchmarks.md"
  for program in dispatch_bench operators_bench; do
    [[ -x $folder/benchmarks/$program ]] || continue
    printf '\n## %s\n\n```\n' $program
    limited "$folder/benchmarks/$program" --benchmark_min_time=0.02 2>&1 || status=$?
    echo '```'
  done >>"$out/benchmarks.md"
  finish benchmarks $status
fi

# ---- peers ----------------------------------------------------------------------------------------------------------
if wanted peers; then
  begin peers
  if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    finish peers 0 "not run: python3 has no PyTorch that sees the GPU"
  else
    status=0 peers=()
    python3 -c 'import jax' 2>/dev/null && peers=(--jax)
    : >"$out/peers.md"
    for precision in strict tf32; do
      [[ $precision == strict ]] && share=$(($(left) * 6 / 10)) || share=$(($(left) * 9 / 10))
      limited python3 "$root/benchmarks/peers/compare.py" "$folder/benchmarks/modes" --mode cuda \
        --precision $precision "${peers[@]}" --budget "$share" --label "Commit $commit." \
        >>"$out/peers.md" 2>"$folder/peers.log" || {
        status=$?
        cat "$folder/peers.log" >>"$out/peers.md"
      }
      echo >>"$out/peers.md"
    done
    finish peers $status "$(grep -h '^Cells in which' "$out/peers.md" | paste -sd ' ')"
  fi
fi

# ---- study ----------------------------------------------------------------------------------------------------------
if wanted study; then
  begin study
  status=0 results=$folder/study log=$folder/study.log
  : >"$log"
  # study_of MODE SECONDS-PER-CELL
  study_of() {
    limited "$folder/benchmarks/study/study" --modes "$1" --seconds-per-cell "$2" --precision strict,tf32,bf16 \
      ${TERN_STUDY_IMAGES:+--data "$TERN_STUDY_IMAGES"} --commit "$commit" --out "$results" >>"$log" 2>&1
  }
  # The cells of sequential would take days; each is cut after three seconds.
  study_of cuda 0 && study_of vectorized 0 && study_of sequential 3 || status=$?
  ((status != 137)) || status=124  # inside a long step
  "$folder/benchmarks/study/study" --report-only --out "$results" >>"$log" 2>&1 || status=$?
  cp "$results"/report.html "$results"/*.csv "$out/" || status=$?
  tar -C "$results" -czf "$out/study.tar.gz" study.json cells
  cp "$log" "$out/"
  finish study $status "$(find "$results/cells" -name '*.json' | wc -l) cells"
fi

# ---- overfitting ----------------------------------------------------------------------------------------------------
if wanted overfit; then
  begin overfit
  status=0
  {
    echo "Commit $commit: the first and the last two steps; below 0.05 the network knows its 32 images."
    for net in "alexnet 0.003" "googlenet 0.001"; do
      echo
      limited "$folder/tests/overfit_check" "${net% *}" cuda "${TERN_STUDY_IMAGES:--}" 32 300 "${net#* }" \
        >"$folder/overfit.log" 2>&1 || status=$?
      sed -n '1,2p' "$folder/overfit.log"
      tail -n 2 "$folder/overfit.log"
    done
  } >"$out/overfit.md"
  finish overfit $status "$(grep -c '^step.*loss 0\.0[0-4]' "$out/overfit.md") of 2 networks"
fi

# ---- the program tern -----------------------------------------------------------------------------------------------
# Held-out accuracy on the tables in cuda, models of one mode in the others, a training that is stopped and resumed, and
# a search with one trial at a time and with all at once. Only on request: --only tern.
if wanted tern; then
  begin tern
  status=0 table=$out/tern.md program=$folder/tools/tern work=$folder/tern
  rm -rf "$work"
  mkdir -p "$work"
  run_tern() { limited "$program" "$@" 2>>"$work/log" || { status=$?; return $status; }; }
  {
    echo "Commit $commit."
    echo
    if [[ -n $data && -d $data/../csv ]]; then
      echo "| table | mode | held-out accuracy and loss, seeds 1 to 5 |"
      echo "|---|---|---|"
      for name in iris banknote_authentication sonar wheat-seeds; do
        for mode in cuda vectorized sequential; do
          figures=
          for seed in 1 2 3 4 5; do
            figures+="$(run_tern train --dataset "$data/../csv/$name.csv" --mode $mode --seed $seed \
              --run "$work/$name-$mode-$seed" --quiet |
              sed 's/^validation accuracy: //'); "
          done
          echo "| $name | $mode | ${figures%; } |"
        done
        for mode in cuda vectorized sequential; do
          run_tern test --model "$work/$name-cuda-1" --dataset "$data/../csv/$name.csv" --held-out --mode $mode \
            --format json |
            sed -n "s/^  \"\(accuracy\|loss\)\": /cuda model of $name in $mode, \1: /p"
        done
      done
    fi
    echo
    echo "Killed and resumed against one piece (the models must be the same bytes):"
    digits=(--dataset synthetic-digits --limit 4000 --net lenet --epochs 100 --mode cuda --quiet)
    run_tern train "${digits[@]}" --run "$work/whole"
    newest() { find "$work/parts/checkpoints" -name '*.safetensors' 2>/dev/null | sort | tail -n 1 || true; }
    for ((kill = 1; kill <= 5; ++kill)); do
      before=$(newest)
      "$program" train "${digits[@]}" --run "$work/parts" --checkpoint-every 20 --resume 2>>"$work/log" &
      training=$!
      # Not before it has run some more steps.
      while kill -0 $training 2>/dev/null && [[ $(newest) == "$before" ]]; do sleep 0.02; done
      kill -KILL $training 2>/dev/null && echo "killed after $(basename "$(newest)")"
      wait $training 2>/dev/null || true
    done
    run_tern train "${digits[@]}" --run "$work/parts" --checkpoint-every 20 --resume
    cmp "$work/whole/model.safetensors" "$work/parts/model.safetensors" && echo "equal, bit for bit" || status=1
    echo
    for jobs in 1 2 4 8; do
      echo "8 trials of mlp-small, $jobs at a time:"
      run_tern tune --dataset synthetic-digits --limit 12000 --net mlp-small --epochs 60 --batch-size 128 --mode cuda \
        --grid seed=1,2,3,4,5,6,7,8 --jobs $jobs --run "$work/tune-$jobs" --quiet
    done
    run_tern tune --compare-serial --dataset synthetic-digits --limit 12000 --net mlp-small --epochs 60 \
      --batch-size 128 --mode cuda --grid seed=1,2,3,4,5,6,7,8 --run "$work/compare" --quiet
  } >"$table" 2>&1
  finish tern $status "$(grep -h ' at once ' "$table" | tail -n 1)"
fi

# ---- many GPUs ------------------------------------------------------------------------------------------------------
# The checks of the transport, weak scaling beside PyTorch's best, strong scaling, the all-reduce by size, and the
# prediction from one and two GPUs. Only on request: --only scale.
if wanted scale; then
  begin scale
  status=0 table=$out/scale.md program=$folder/benchmarks/scale
  # In a virtual machine the links' multicast may be present but not work.
  export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
  gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
  limited "$folder/tests/tern_test_parallel" "[cuda]" >"$out/parallel.log" 2>&1 || status=$?
  nets=mlp-small,mlp-big,lenet,alexnet,googlenet,resnet18
  {
    echo "Commit $commit, $gpus GPUs."
    for batch in 128 32; do
      ((batch == 128)) || nets=alexnet,googlenet
      echo
      limited "$program" --nets $nets --precisions tf32,bf16 --batches $batch --seconds 0.15 || status=$?
    done
    echo
    limited "$program" --nets googlenet --precisions tf32 --batches 1024 --strong --seconds 0.15 || status=$?
    echo
    limited "$program" --nets alexnet --split-classifier --precisions tf32 --batches 128 --seconds 0.15 || status=$?
    echo
    limited "$program" --all-reduce --seconds 0.05 || status=$?
  } >"$table" 2>"$folder/scale.log" || status=$?
  if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    for precision in tf32 bf16; do
      echo
      limited torchrun --nproc-per-node "$gpus" "$root/benchmarks/peers/ddp.py" --precision $precision --compile \
        --tern "$table" 2>>"$folder/scale.log" || status=$?
    done >"$folder/peers-scale.md"
    cat "$folder/peers-scale.md" >>"$table"
  fi
  finish scale $status "$gpus GPUs"
fi

cat "$summary" >&2
((failures == 0))
