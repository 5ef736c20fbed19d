"""The training loop: one jitted, donated step; held-out loss and a checkpoint at intervals; Ctrl-C ends it between two steps."""

import contextlib
import functools
import math
import signal

import numpy as np

import fgrad
from fgrad import optim, random
from llama import model
from llama.checkpoint import Run, save
from llama.data import batch_at
from llama.report import Progress, bits

EVALUATION_BATCHES = 16


def optimizer(config):
    """AdamW on gradients clipped by their global norm, the rate warming up for at most 60 steps, then falling along a cosine."""
    warmup = min(60, config.steps // 4)
    schedule = optim.warmup_cosine_decay_schedule(0.0, config.lr, warmup, config.steps, config.lr / 10)
    return optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(schedule, b2=0.99, weight_decay=0.01))


def new_run(config, data):
    """A run at step 0. data: {"path", "sha256"}."""
    key = random.key(config.seed)
    params = model.init(config, random.fold_in(key, 0))
    return Run(config, params, optimizer(config).init(params), key, 0, [], [], data)


def template(config):
    """Shapes and dtypes of a run's arrays, without computing them."""

    def arrays():
        run = new_run(config, {})
        return {"params": run.params, "optimizer": run.opt_state, "key": random.key_data(run.key)}

    return fgrad.eval_shape(arrays)


def train_step(config):
    """step(params, state, tokens) -> (params, state, loss), compiled once; the arrays given are used up."""
    update = optimizer(config).update

    def step(params, state, tokens):
        value, grads = fgrad.value_and_grad(functools.partial(model.loss, config))(params, tokens)
        updates, state = update(grads, state, params)
        return optim.apply_updates(params, updates), state, value

    return fgrad.jit(step, donate_argnums=(0, 1))


class Interrupt:
    """Set by the first Ctrl-C (or SIGTERM), to be looked at between steps; a second Ctrl-C interrupts at once."""

    def __init__(self):
        self.set = False

    def _handle(self, number, frame):
        if self.set:
            raise KeyboardInterrupt
        self.set = True

    @contextlib.contextmanager
    def watch(self):
        before = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)


def fit(run, train, held_out, path, every, stop_after, interrupt):
    """Train `run` in place until its last step, for `stop_after` steps, or until interrupted; checkpoints go to `path`.

    Every `every` steps, and at the first and the last, the held-out loss is taken over the same batches.
    """
    config = run.config
    step, evaluate = train_step(config), fgrad.jit(functools.partial(model.loss, config))
    train_key, held_out_key = random.fold_in(run.key, 1), random.fold_in(run.key, 2)
    checks = [batch_at(held_out, held_out_key, i, config.batch, config.context) for i in range(EVALUATION_BATCHES)]
    progress = Progress(run.step, config.steps, config.batch * config.context)
    last = config.steps if stop_after is None else min(config.steps, run.step + stop_after)

    def report():
        if not run.held_out or run.held_out[-1][0] != run.step:
            run.held_out.append((run.step, float(np.mean([float(evaluate(run.params, c)) for c in checks]))))
        text = f"step {run.step:5d}  held-out {bits(run.held_out[-1][1]):.3f} bits per byte"
        if run.train:
            text += f"  train {bits(np.mean(run.train[-every:])):.3f}  {progress.rate:,.0f} tokens/s"
        progress.line(text)

    try:
        if run.step == 0:
            report()
        while run.step < last and not interrupt.set:
            tokens = batch_at(train, train_key, run.step, config.batch, config.context)
            progress.begin_step()
            run.params, run.opt_state, value = step(run.params, run.opt_state, tokens)
            value = float(value)
            progress.end_step(value)
            if not math.isfinite(value):
                raise SystemExit(f"the loss is {value} after step {run.step + 1}: try a smaller --lr; the last checkpoint is kept")
            run.step += 1
            run.train.append(value)
            if run.step % every == 0 or run.step == config.steps:
                report()
                save(path, run)
        save(path, run)
    finally:
        progress.close()
