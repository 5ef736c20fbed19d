"""What a run shows: a progress bar or plain lines, and the loss curves as a picture."""

import math
import sys
import time

import numpy as np

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None


def bits(nats):
    """Bits from nats: the loss per byte, as a compressor would count it."""
    return nats / math.log(2)


class Progress:
    """A tqdm bar with loss and tokens/s on a terminal; nothing but the lines given to `line` elsewhere or without tqdm."""

    def __init__(self, done, total, tokens_per_step, stream=None):
        self.stream = stream or sys.stderr
        self.tokens, self.steps, self.seconds = tokens_per_step, 0, 0.0
        self.started = None
        self.bar = None
        if tqdm is not None and self.stream.isatty():
            self.bar = tqdm(total=total, initial=done, unit="step", file=self.stream, dynamic_ncols=True)

    @property
    def rate(self):
        """Tokens a second of training, evaluation not counted."""
        return self.steps * self.tokens / self.seconds if self.seconds else 0.0

    def begin_step(self):
        self.started = time.perf_counter()

    def end_step(self, loss):
        self.seconds += time.perf_counter() - self.started
        self.steps += 1
        if self.bar is not None:
            self.bar.set_postfix_str(f"{bits(loss):.3f} bits/byte, {self.rate:,.0f} tokens/s", refresh=False)
            self.bar.update()

    def line(self, text):
        """A line that stays, above the bar if there is one."""
        if self.bar is None:
            print(text, flush=True)
        else:
            self.bar.write(text)

    def close(self):
        if self.bar is not None:
            self.bar.close()


def smooth(values, window):
    """Running means over `window` values, the first ones over what there is."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    stop = np.arange(1, len(values) + 1)
    start = np.maximum(stop - window, 0)
    return (total[stop] - total[start]) / (stop - start)


def loss_curve(path, train, held_out):
    """Draw bits per byte against steps, every step's training loss and the held-out ones, as a PNG at `path`; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    train = bits(np.asarray(train, np.float64))
    figure, axes = pyplot.subplots(figsize=(8, 5), dpi=120)
    steps = np.arange(1, len(train) + 1)
    axes.plot(steps, train, color="tab:blue", alpha=0.25, linewidth=0.8, label="training, each step")
    window = min(50, max(2, len(train) // 20))
    axes.plot(steps, smooth(train, window), color="tab:blue", label=f"training, mean of {window}")
    if held_out:
        x, y = zip(*held_out)
        axes.plot(x, bits(np.asarray(y)), color="tab:orange", marker="o", markersize=3, label="held out")
    axes.set(xlabel="step", ylabel="bits per byte", title="A small Llama, byte by byte")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    return True
