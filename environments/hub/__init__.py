"""Repositories of the Hugging Face Hub: ``address`` (``hub:USER/NAME@REVISION``), ``manifest`` (the hashes of what was
pushed), ``download`` (a task set as a verified folder), ``client`` (huggingface_hub, and one line for each failure).
"""
