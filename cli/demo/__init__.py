"""Guided tour of ``etude demo``: a real package becomes tasks, agents play them over a socket, a tiny model learns.

Read ``tour`` first: it runs the stages. ``stages`` says what each stage means, ``players`` holds the server and the
agents, ``training`` the training run with its measurements, ``display`` the live progress and the final summary.
"""
