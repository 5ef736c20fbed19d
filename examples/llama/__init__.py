"""The parts of train_llama.py: model, data, sampling, checkpoints, the training loop and what it reports."""
