"""Latency of one inference by another library, beside benchmarks/programs.cpp: median, 99th percentile and least of a
call with the copies of its input and result. ONNX Runtime on THREADS threads, or with `cuda` in their place PyTorch's
best on the GPU: the network in bfloat16 (or DTYPE), channels first and last, as one CUDA graph between a copy from
pinned memory and one back. The networks are those of infer.py and of torchvision.

usage: latency.py NET BATCH THREADS CALLS [DTYPE]
"""

import sys
import time


def summary(times):
    times = sorted(times)
    return f"{times[(len(times) - 1) // 2]:.4f} {times[int(0.99 * (len(times) - 1))]:.4f} {times[0]:.4f} ms"


def of_onnxruntime(net, batch, threads, calls):
    import numpy as np
    import onnxruntime

    import infer

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    model = infer.NETS[net]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    sizes = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    x = np.random.default_rng(1).standard_normal((batch, *sizes), dtype=np.float32)
    times = []
    for i in range(calls + 3):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(1e3 * (time.perf_counter() - start))
    print(f"onnxruntime {onnxruntime.__version__} {summary(times[3:])}")


def of_torch(net, batch, calls, dtype):
    import torch

    import sweep

    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    for name, layout in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        module, shape, _ = sweep.net_by(net)
        module = module.eval().cuda().to(getattr(torch, dtype)).to(memory_format=layout)
        host = torch.randn(batch, *shape).to(getattr(torch, dtype)).to(memory_format=layout).pin_memory()
        x = host.cuda()
        kept = {}

        def run():
            with torch.inference_mode():
                kept["y"] = module(x)

        replay = sweep.graph_of(run)
        answer = torch.empty(kept["y"].shape, dtype=kept["y"].dtype).pin_memory()
        times = []
        for i in range(calls + 5):
            start = time.perf_counter()
            x.copy_(host, non_blocking=True)
            replay()
            answer.copy_(kept["y"], non_blocking=True)
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        print(f"PyTorch {torch.__version__} {dtype} graph {name} {summary(times[5:])}", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[2] == "cuda":
        of_torch(arguments[0], int(arguments[1]), int(arguments[3]), (arguments[4:] + ["bfloat16"])[0])
    else:
        of_onnxruntime(arguments[0], *map(int, arguments[1:4]))
