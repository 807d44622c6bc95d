"""A policy behind its tokenizer's chat template: messages to token ids, and sampled ids back to actions.

Reading order: ``special_tokens``, ``templates`` (what a template writes), ``tool_call_formats`` (calls in sampled
text), ``turn_encoding`` (a given turn as ids), ``hint_insertion``, ``chat_policy`` (everything together).
"""
