"""A small Llama (RMSNorm, RoPE, SwiGLU, causal attention) trained from scratch, byte by byte, on Python's standard library.

    python examples/train_llama.py                      train; Ctrl-C saves a checkpoint
    python examples/train_llama.py --resume             go on from it, to the bit
    python examples/train_llama.py --data FILE_OR_FOLDER
    python examples/train_llama.py --sample-only --prompt "class "

It prints the held-out loss in bits per byte and a sample, and leaves a checkpoint and the loss curves in out/.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

from llama import checkpoint, data, report, sample
from llama import train as training
from llama.model import Config

from fgrad import random

OUT = Path(__file__).resolve().parent.parent / "out"
INTERRUPTED = 130  # a shell's exit status for Ctrl-C


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a text file, or a folder of them (default: Python's standard library)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the checkpoint and the loss curves (default: out/)")
    parser.add_argument("--resume", nargs="?", const=True, metavar="PATH", help="go on from a checkpoint (default: the one in --out)")
    parser.add_argument("--stop-after", type=int, metavar="N", help="stop after N steps, as Ctrl-C would")
    parser.add_argument("--every", type=int, default=100, metavar="N", help="held-out loss and checkpoint every N steps (default: 100)")
    parser.add_argument("--sample-only", action="store_true", help="write text from the checkpoint of --resume (default: the one in --out)")
    parser.add_argument("--prompt", default="def ", help="what the sample continues")
    parser.add_argument("--length", type=int, default=400, help="bytes to sample (default: 400)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0: always the likeliest byte (default: 0.8)")
    parser.add_argument("--top-k", type=int, default=0, help="draw from the K likeliest bytes only (default: 0, all)")
    for field in dataclasses.fields(Config):
        parser.add_argument(f"--{field.name}", type=field.type, help=f"default: {field.default}")
    args = parser.parse_args(argv)
    for name, low in (("every", 1), ("length", 0), ("temperature", 0), ("top_k", 0)):
        if not getattr(args, name) >= low:
            parser.error(f"--{name.replace('_', '-')} must be at least {low}, got {getattr(args, name)}")
    if args.top_k > 256:
        parser.error(f"--top-k must be at most 256, the number of bytes, got {args.top_k}")
    if args.stop_after is not None and args.stop_after < 1:
        parser.error(f"--stop-after must be at least 1, got {args.stop_after}")
    return args


def given(args):
    """The configuration's options on the command line, as a dict."""
    values = {f.name: getattr(args, f.name) for f in dataclasses.fields(Config)}
    return {k: v for k, v in values.items() if v is not None}


def load(path, options):
    """The run at `path`. Options that the command line gives must be those of the checkpoint, but for the number of steps."""
    run = checkpoint.load(path, training.template)
    for name, value in options.items():
        have = getattr(run.config, name)
        if name != "steps" and value != have:
            raise SystemExit(f"{path}: was made with --{name} {have}, not {value}; leave the option out, or train anew without --resume")
    steps = options.get("steps", run.config.steps)
    if steps < run.step:
        raise SystemExit(f"{path}: has {run.step} steps already, more than --steps {steps}")
    if steps != run.config.steps:
        print(f"--steps {steps}: the learning rate now falls until there, not until {run.config.steps}")
        run.config = dataclasses.replace(run.config, steps=steps)
    return run


def begin(args, path):
    """(the run to train, its training bytes, its held-out bytes)."""
    if args.resume:
        run = load(path, given(args))
        source = run.data["path"] if args.data is None else args.data
        text = data.read_bytes(source)
        if data.fingerprint(text) != run.data["sha256"]:
            raise SystemExit(f"{path}: the text at {source or 'the standard library'} is not what it was trained on; give that as --data")
        print(f"{path}: going on after step {run.step} of {run.config.steps}")
    else:
        config = Config(**given(args))
        text = data.read_bytes(args.data)
        source = None if args.data is None else str(Path(args.data).resolve())
        run = training.new_run(config, {"path": source, "sha256": data.fingerprint(text)})
        print(f"{source or 'Python standard library'}: {len(text):,} bytes, the last twentieth held out")
        if path.exists():
            print(f"{path} is of an earlier run and will be replaced (--resume goes on with it)")
    return run, *data.split(text, run.config.context)


def write_sample(args, run):
    """Print the prompt and what follows."""
    prompt = args.prompt.encode()
    key = random.fold_in(run.key, 3)
    text = sample.generate(run.config, run.params, prompt, args.length, key, args.temperature, args.top_k) if args.length else b""
    print("\n" + (prompt + text).decode("utf-8", "replace"), flush=True)


def main(argv=None):
    """Run the command; the exit status."""
    args = parse(argv)
    saved = args.out / "llama.safetensors"
    source = saved if args.resume in (None, True) else Path(args.resume)
    if args.sample_only:
        write_sample(args, load(source, given(args)))
        return 0
    with training.Interrupt().watch() as interrupt:
        run, train, held_out = begin(args, source if args.resume else saved)
        training.fit(run, train, held_out, saved, args.every, args.stop_after, interrupt)
        curve = args.out / "llama_loss.png"
        drawn = report.loss_curve(curve, run.train, run.held_out)
        print(f"saved {saved}" + (f" and {curve}" if drawn else " (no loss curves: matplotlib is not installed)"))
    if run.step < run.config.steps:
        print(f"stopped after step {run.step} of {run.config.steps}; go on with:  {resume_command(args)}", flush=True)
        return INTERRUPTED if interrupt.set else 0
    print(f"{report.bits(run.held_out[-1][1]):.3f} held-out bits per byte after {run.step} steps")
    write_sample(args, run)
    return 0


def resume_command(args):
    """What to type to go on."""
    return f"python {sys.argv[0]} --resume" + ("" if args.out == OUT else f" --out {args.out}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
