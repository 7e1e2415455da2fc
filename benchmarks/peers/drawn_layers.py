"""Convolutions drawn at random from what published networks use, for sweep.py and sweep_cpu.py."""


def draw(generator, batches, most_elements, most_flops):
    """A convolution: N, C, H, O, K, stride, padding, dilation, groups."""
    def channels(most):
        if generator.random() < 0.8:
            return max(1, int(2 ** generator.uniform(0, most) / 8 + 0.5) * 8)
        return generator.randint(1, 2 ** most)

    while True:
        n = generator.choice(batches)
        h = generator.choice([7, 14, 28, 56, 112, 224])
        c = channels(11)
        kind = generator.choice(["plain", "plain", "1x1", "grouped", "depthwise"])
        k = 1 if kind == "1x1" else generator.choice([3, 3, 3, 5, 7])
        if kind == "depthwise":
            o, groups = c, c
        elif kind == "grouped":
            groups = generator.choice([2, 4, 8, 16, 32])
            c = max(groups, c // groups * groups)
            o = c
        else:
            o, groups = channels(11), 1
        stride = generator.choice([1, 1, 1, 2])
        dilation = generator.choice([1] * 9 + [2])
        flops = 2 * n * (h // stride) ** 2 * o * c // groups * k * k
        if n * h * h * max(c, o) <= most_elements and flops <= most_flops:
            return n, c, h, o, k, stride, dilation * (k - 1) // 2, dilation, groups
