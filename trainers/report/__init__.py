"""The report of a training run: one HTML file without scripts, written from the files in the run's folder.

``page.py`` renders the page, ``curves.py`` chooses its charts, ``drawing.py`` computes their geometry, ``run_files.py``
reads the folder, ``metrics_summary.py`` computes and summarises the metrics of steps. Nothing here imports torch.
"""
