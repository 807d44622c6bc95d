"""Functions of the commands: each module checks options, calls one function of Etude and shows its result."""
