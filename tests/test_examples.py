"""The examples run and keep their promises: at tiny sizes, through their command lines."""

import importlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import fgrad
import fgrad.numpy as jnp
from fgrad import random

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TINY = "--layers 2 --dim 32 --heads 2 --hidden 48 --context 16 --batch 4 --steps 6 --every 2 --length 20".split()


@pytest.fixture(scope="module", autouse=True)
def examples_on_path():
    """The examples import each other as they do when run as scripts."""
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "poem.txt"
    path.write_text("".join(f"{i} green bottles hanging on the wall\n" for i in range(200)))
    return path


def run_main(name, *args):
    return importlib.import_module(name).main(*args)


def train(text, out, *args):
    return run_main("train_llama", [*TINY, "--data", str(text), "--out", str(out), *args])


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """The folder of an uninterrupted run of 6 steps."""
    out = tmp_path_factory.mktemp("whole")
    assert train(text, out) == 0
    return out


def checkpoint_of(out):
    return load_file(out / "llama.safetensors")


# --- small examples -------------------------------------------------------------------------------------------------------


def test_grad_start():
    first, second = run_main("grad_start")
    assert first == pytest.approx(np.cos(2) * 4 + 4 * np.sin(2), rel=1e-5)
    assert second == pytest.approx(8 * np.cos(2) - 2 * np.sin(2), rel=1e-5)


def test_linear_regression_reaches_the_closed_form():
    assert run_main("linear_regression") < 1e-5


def test_mlp_reads_digits(capsys):
    assert run_main("mlp_digits", 8) > 0.93
    assert "held-out accuracy" in capsys.readouterr().out


# --- training and resuming --------------------------------------------------------------------------------------------------


def test_training_lowers_the_loss_and_leaves_checkpoint_curves_and_sample(text, tmp_path, capsys):
    assert train(text, tmp_path, "--steps", "60", "--lr", "0.01", "--every", "30", "--prompt", "12 green") == 0
    printed = capsys.readouterr().out
    tensors = checkpoint_of(tmp_path)
    held_out = tensors["history/held_out"]
    assert tensors["history/held_out_step"].tolist() == [0, 30, 60]
    assert held_out[-1] < 0.7 * held_out[0]
    assert f"{held_out[-1] / np.log(2):.3f} held-out bits per byte after 60 steps" in printed
    assert "\n12 green" in printed
    assert (tmp_path / "llama_loss.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["llama.safetensors", "llama_loss.png"]


def losses(printed):
    """The lines of losses by step, without the tokens/s, which differ from run to run."""
    return {int(n): line for n, line in re.findall(r"^step +(\d+)(  held-out .*?)(?:  [\d,]+ tokens/s)?$", printed, re.MULTILINE)}


def test_resumed_run_equals_uninterrupted_run_to_the_bit(text, tmp_path, capsys):
    assert train(text, tmp_path / "whole") == 0
    expected = losses(capsys.readouterr().out)
    assert train(text, tmp_path / "parts", "--stop-after", "3") == 0
    assert "stopped after step 3 of 6; go on with:" in capsys.readouterr().out
    assert run_main("train_llama", ["--resume", "--out", str(tmp_path / "parts"), "--every", "2"]) == 0
    resumed = losses(capsys.readouterr().out)
    assert list(expected) == [0, 2, 4, 6]
    assert resumed == {n: expected[n] for n in (4, 6)}
    want, have = checkpoint_of(tmp_path / "whole"), checkpoint_of(tmp_path / "parts")
    assert want.keys() == have.keys() and len(want["history/train"]) == 6
    for name in want:
        np.testing.assert_array_equal(want[name], have[name], err_msg=name)


def test_resume_after_the_last_step_and_beyond(whole, text, capsys, tmp_path):
    path = str(whole / "llama.safetensors")
    arguments = ["--resume", path, "--out", str(tmp_path), "--length", "0"]
    assert run_main("train_llama", arguments) == 0
    assert run_main("train_llama", [*arguments, "--steps", "8"]) == 0
    assert len(checkpoint_of(tmp_path)["history/train"]) == 8
    assert "the learning rate now falls until there" in capsys.readouterr().out


def wait_for(process, word, seconds=60):
    """Read the process's lines until one has `word`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = process.stdout.readline()
        if word in line or not line:
            return line
    return ""


def test_interrupt_saves_and_resumes(text, tmp_path):
    command = [sys.executable, str(EXAMPLES / "train_llama.py"), *TINY, "--steps", "100000", "--data", str(text), "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert "step     4" in wait_for(process, "step     4")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "--resume" in out and "stopped after step" in out
    tensors = checkpoint_of(tmp_path)
    done = len(tensors["history/train"])
    assert done >= 4
    assert (tmp_path / "llama_loss.png").exists()
    assert run_main("train_llama", ["--resume", "--out", str(tmp_path), "--stop-after", "1"]) == 0
    after = checkpoint_of(tmp_path)["history/train"]
    np.testing.assert_array_equal(after[:done], tensors["history/train"])
    assert len(after) == done + 1


def test_batches_depend_on_key_and_step_only():
    data = importlib.import_module("llama.data")
    values = jnp.arange(256, dtype=jnp.uint8)
    key = random.key(3)
    first = np.asarray(data.batch_at(values, key, 7, 4, 8))
    data.batch_at(values, key, 8, 4, 8)
    np.testing.assert_array_equal(data.batch_at(values, key, 7, 4, 8), first)
    assert not np.array_equal(data.batch_at(values, key, 8, 4, 8), first)
    np.testing.assert_array_equal(np.diff(first, axis=1), 1)  # each row is a window of the data


# --- sampling ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_model():
    model = importlib.import_module("llama.model")
    config = model.Config(layers=2, dim=32, heads=2, hidden=48, context=16)
    return model, config, model.init(config, random.key(5))


@pytest.mark.parametrize("prompt", [1, 5, 15])
def test_decoding_through_the_cache_equals_the_full_forward_pass(tiny_model, prompt):
    model, config, params = tiny_model
    sample = importlib.import_module("llama.sample")
    tokens = np.random.default_rng(0).integers(0, 256, (3, config.context)).astype(np.int32)
    full = np.asarray(model.forward(config, params, tokens)[0])
    logits, cache = sample.prefill(config, params, tokens[:, :prompt])
    np.testing.assert_allclose(logits, full[:, prompt - 1], rtol=1e-4, atol=1e-5)
    step = fgrad.jit(model.forward, static_argnums=0)
    for at in range(prompt, config.context):
        logits, cache = step(config, params, tokens[:, at : at + 1], cache, at)
        np.testing.assert_allclose(logits[:, 0], full[:, at], rtol=1e-4, atol=1e-5)


def test_cache_forgets_what_is_older_than_the_context(tiny_model):
    """One layer sees nothing but the last `context` bytes, wherever in the ring they are."""
    model, config, _ = tiny_model
    config = model.Config(layers=1, dim=32, heads=2, hidden=48, context=8)
    params = model.init(config, random.key(1))
    tokens = np.random.default_rng(0).integers(0, 256, (1, 21)).astype(np.int32)
    cache = model.empty_cache(config, 1)
    for at in range(21):
        logits, cache = model.forward(config, params, tokens[:, at : at + 1], cache, at)
    window = model.forward(config, params, tokens[:, -8:])[0]
    np.testing.assert_allclose(logits[0, 0], window[0, -1], rtol=1e-3, atol=1e-4)


def test_greedy_decoding_equals_the_full_pass_byte_by_byte(tiny_model):
    model, config, params = tiny_model
    sample = importlib.import_module("llama.sample")
    text = sample.generate(config, params, b"abc", 10, random.key(0), temperature=0)
    want = list(b"abc")
    for _ in range(10):
        logits = model.forward(config, params, np.array([want], np.int32))[0]
        want.append(int(jnp.argmax(logits[0, -1])))
    assert b"abc" + text == bytes(want)


def test_choice_of_bytes(tiny_model):
    sample = importlib.import_module("llama.sample")
    logits = jnp.asarray(np.random.default_rng(0).permutation(256).astype(np.float32) / 50)[None]
    best = np.argsort(-np.asarray(logits[0]))
    drawn = {k: {int(sample.choose(random.key(i), logits, 1.0, k)[0]) for i in range(60)} for k in (0, 1, 3)}
    assert drawn[1] == {best[0]}
    assert drawn[3] == set(best[:3].tolist())
    assert len(drawn[0]) > 10
    assert int(sample.choose(random.key(0), logits, 0, 0)[0]) == best[0]


def test_sample_only(whole, capsys):
    arguments = ["--sample-only", "--out", str(whole), "--prompt", "3 green", "--length", "50"]
    assert run_main("train_llama", arguments) == 0
    first = capsys.readouterr().out
    assert first.startswith("\n3 green") and len(first) > len("\n3 green\n")
    run_main("train_llama", arguments)
    assert capsys.readouterr().out == first


# --- errors -------------------------------------------------------------------------------------------------------------------


def fails(*args):
    """The message with which the command stops."""
    with pytest.raises(SystemExit) as stopped:
        run_main("train_llama", [str(a) for a in args])
    return str(stopped.value)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "cut":
        content = content[: len(content) // 2]
    elif how == "flip":
        content[-100] ^= 1
    elif how == "text":
        content = b"not a checkpoint"
    elif how == "empty":
        content = b""
    path.write_bytes(content)


@pytest.mark.parametrize(
    "how, message", [("cut", "not a readable"), ("flip", "damaged"), ("text", "not a readable"), ("empty", "not a readable")]
)
def test_damaged_checkpoint(whole, tmp_path, how, message):
    path = tmp_path / "llama.safetensors"
    path.write_bytes((whole / "llama.safetensors").read_bytes())
    damage(path, how)
    error = fails("--resume", "--out", tmp_path)
    assert message in error and str(path) in error


def test_checkpoint_of_something_else(tmp_path):
    save_file({"w": np.zeros(3, np.float32)}, tmp_path / "llama.safetensors")
    assert "not a checkpoint of train_llama.py" in fails("--resume", "--out", tmp_path)


def test_checkpoint_of_another_configuration(whole):
    assert "was made with --dim 32, not 64" in fails("--resume", "--out", whole, "--dim", 64)
    assert "has 6 steps already" in fails("--resume", "--out", whole, "--steps", 5)


def test_checkpoint_of_other_data(whole, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("something else " * 100)
    assert "not what it was trained on" in fails("--resume", "--out", whole, "--data", other)


def test_no_checkpoint(tmp_path):
    assert "no such checkpoint" in fails("--resume", "--out", tmp_path)
    assert "no such checkpoint" in fails("--sample-only", "--out", tmp_path)


def test_unusable_data(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("too short")
    (tmp_path / "binary").write_bytes(b"\0\1\2" * 5000)
    out = ("--out", tmp_path / "out")
    assert "no such file or folder" in fails("--data", tmp_path / "missing", *out)
    assert "no text in its 0 files" in fails("--data", tmp_path / "empty", *out)
    assert "is empty or not text" in fails("--data", tmp_path / "empty.txt", *out)
    assert "is empty or not text" in fails("--data", tmp_path / "binary", *out)
    assert "needs at least 2,580" in fails("--data", tmp_path / "short.txt", *out)


def test_folder_of_texts_is_read_in_order_without_hidden_and_binary_files(tmp_path):
    data = importlib.import_module("llama.data")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_text("two")
    (tmp_path / "a.py").write_text("one")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "z.bin").write_bytes(b"\0\0")
    assert data.read_bytes(tmp_path) == b"one\ntwo"


@pytest.mark.parametrize("option, value", [("--dim", 33), ("--layers", 0), ("--lr", 0)])
def test_unusable_configuration(text, tmp_path, option, value):
    assert option in fails("--data", text, "--out", tmp_path, option, value)


def test_a_failed_write_leaves_the_old_checkpoint(whole, text, tmp_path, monkeypatch):
    """The file under the checkpoint's name is replaced by a whole one or not at all."""
    checkpoint = importlib.import_module("llama.checkpoint")
    assert train(text, tmp_path, "--stop-after", "2") == 0
    before = (tmp_path / "llama.safetensors").read_bytes()
    run = importlib.import_module("train_llama").load(tmp_path / "llama.safetensors", {})

    def interrupted_write(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "save_file", interrupted_write)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(tmp_path / "llama.safetensors", run)
    assert (tmp_path / "llama.safetensors").read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_metadata_tells_the_configuration(whole):
    with safe_open(whole / "llama.safetensors", framework="numpy") as f:
        metadata = f.metadata()
    assert metadata["step"] == "6" and '"dim": 32' in metadata["config"] and '"sha256"' in metadata["data"]
