"""The generators that come with Etude, one sub-package per family."""
