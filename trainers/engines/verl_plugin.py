"""Registration with verl: ``VERL_USE_EXTERNAL_MODULES=etude.trainers.engines.verl_plugin`` imports it in every process.

verl 0.9 imports the modules that this variable names at the end of its own import, on the driver and on all workers.
"""

from .verl_loss import register

register()
