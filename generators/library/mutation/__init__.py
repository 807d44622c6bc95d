"""Mutation: one small mistake is put into tested code, and the agent finds and corrects it from a bug report."""
