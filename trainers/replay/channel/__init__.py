"""The replay channel of the trainer: preference pairs as token ids, and the losses on them."""
