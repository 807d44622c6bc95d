"""Red team: the exploit corpus of ``monitors.exploits`` played against a task set, or against a server.

Reading order: ``facts`` (what an attacker knows of a task), ``attempt`` (one exploit, played and graded), ``campaign``
(all of them), ``matrix`` (the results, by class).
"""
