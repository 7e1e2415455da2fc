#!/usr/bin/env python3
"""Networks of torchvision, timm and transformers through ONNX: Tern's onnx::load beside ONNX Runtime.

Each network is exported with random weights (once: FOLDER keeps the files), ONNX Runtime computes its outputs, and the
program onnx_nets compares Tern's with them. With --seconds both are timed at batch 1 in interleaved pairs, wall clock
and processor time; ONNX Runtime with and without spinning threads. With --mode cuda the peer is PyTorch on the same
GPU: the best of eager and one CUDA graph, with channels first and last, of the network that was exported.

usage: onnx_nets.py PROGRAM FOLDER [NAME ...] [--set thirty|more|all] [--exporter script|dynamo] [--opset N]
                    [--seconds S --rounds R] [--threads N] [--mode vectorized|cuda] [--precision strict|tf32]
exit status: 0; 1 where a network fails or is further than 1e-4 from ONNX Runtime
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np
import onnxruntime

import onnx_zoo


def export(name, folder, exporter, opset):
    import torch
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)
    file = folder / (name.replace("timm:", "") + f".{exporter}.onnx")
    data = file.with_suffix(".npz")
    if data.exists():
        return file, data
    net, inputs = onnx_zoo.make(name)
    names = [f"input{i}" for i in range(len(inputs))]
    with torch.no_grad():
        if exporter == "script":
            torch.onnx.export(net, inputs, str(file), input_names=names, opset_version=opset or 17, dynamo=False,
                              dynamic_axes={each: {0: "batch"} for each in names})
        else:
            import logging
            logging.disable(logging.WARNING)
            torch.onnx.export(net, inputs, str(file), input_names=names, opset_version=opset or None, dynamo=True,
                              external_data=False, verbose=False)
    feeds = {each: x.numpy() for each, x in zip(names, inputs)}
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    feeds = {one.name: feeds[one.name] for one in session.get_inputs()}
    outputs = session.run(None, feeds)
    arrays = {f"input.{i}": x for i, x in enumerate(feeds.values())}
    arrays |= {f"output.{i}": np.asarray(x) for i, x in enumerate(outputs)}
    np.savez(data, **arrays)
    return file, data


def repeated(data, batch):
    """The same file of inputs and outputs with `batch` copies of each example."""
    if batch == 1:
        return data
    file = data.with_suffix(f".{batch}.npz")
    np.savez(file, **{name: np.repeat(values, batch, 0) for name, values in np.load(data).items()})
    return file


def session_of(file, threads, spin):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def measured(session, feeds, seconds):
    times, processor, total = [], [], 0
    while total < seconds or len(times) < 3:
        clock, start = time.process_time(), time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - clock)
        total += times[-1]
    return 1e3 * min(times), 1e3 * sorted(times)[len(times) // 2], 1e3 * min(processor)


def on_gpu(name, seconds, precision):
    """-> milliseconds of PyTorch's fastest way, and its name"""
    import torch

    import sweep
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.mha.set_fastpath_enabled(True)

    def make(layout):
        net, inputs = onnx_zoo.make(name)
        inputs = [each.cuda() for each in inputs]
        net = net.cuda().eval()
        if all(each.ndim == 4 for each in inputs):
            net, inputs = net.to(memory_format=layout), [each.to(memory_format=layout) for each in inputs]

        def run():
            with torch.inference_mode():
                net(*inputs)
        return run
    best, how = sweep.best_of(make, seconds)
    return best / 1e3, how


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", choices=["thirty", "more", "all"], default="thirty")
    parser.add_argument("--exporter", choices=["script", "dynamo"], default="script")
    parser.add_argument("--opset", type=int)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--mode", choices=["vectorized", "cuda"], default="vectorized")
    parser.add_argument("--precision", choices=["strict", "tf32"], default="strict")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sets = {"thirty": onnx_zoo.thirty, "more": onnx_zoo.more, "all": onnx_zoo.thirty + onnx_zoo.more}
    onnxruntime.set_default_logger_severity(4)
    bad = 0
    for name in options.names or sets[options.set]:
        try:
            file, data = export(name, options.folder, options.exporter, options.opset)
            data = repeated(data, options.batch)
        except Exception as error:  # the exporter's, not ours
            print(f"{name}: not exported: {str(error).strip().splitlines()[0][:150] if str(error) else repr(error)}",
                  flush=True)
            continue
        program = subprocess.Popen([options.program, str(file), str(data), str(options.threads)], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=os.environ | {"MODE": options.mode, "PRECISION": options.precision})
        first = program.stdout.readline().strip()
        if not first.startswith("error"):
            rest = program.communicate()[0]
            print(f"{name}: FAILED {first} {rest.strip()} (exit {program.returncode})", flush=True)
            bad += 1
            continue
        far = float(first.split()[1]) > (1e-4 if options.precision == "strict" else 1e-2)
        bad += far
        line = f"{name}: {'FAR ' if far else ''}{first}"
        if options.seconds and options.mode == "cuda":
            theirs, tern = (float("inf"), "none"), float("inf")
            for _ in range(options.rounds):
                print(options.seconds, file=program.stdin, flush=True)
                tern = min(tern, float(program.stdout.readline().split()[1]))
                theirs = min(theirs, on_gpu(name, options.seconds, options.precision))
            line += f" | tern {tern:.3f} ms | PyTorch {theirs[0]:.3f} ms ({theirs[1]}) | ratio {theirs[0] / tern:.2f}"
        elif options.seconds:
            arrays = np.load(data)
            whole = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            names = [one.name for one in whole.get_inputs()]
            feeds = {each: arrays[f"input.{i}"] for i, each in enumerate(names)}
            spinning, quiet = session_of(file, options.threads, True), session_of(file, options.threads, False)
            best = {}
            for _ in range(options.rounds):
                for label, one in (("tern", None), ("spin", spinning), ("quiet", quiet)):
                    if one is None:
                        print(options.seconds, file=program.stdin, flush=True)
                        now = tuple(float(x) for x in program.stdout.readline().split())
                    else:
                        measured(one, feeds, 0)
                        now = measured(one, feeds, options.seconds)
                    best[label] = tuple(map(min, now, best.get(label, now)))
            tern, spin, quiet = best["tern"], best["spin"], best["quiet"]
            line += (f" | tern {tern[0]:.2f} ms, processor {tern[2]:.2f} | ort {spin[0]:.2f} / {quiet[0]:.2f} ms, "
                     f"processor {spin[2]:.2f} / {quiet[2]:.2f} | ratio wall {min(spin[0], quiet[0]) / tern[0]:.2f}, "
                     f"processor {quiet[2] / tern[2]:.2f}")
        program.communicate()
        print(line, flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
