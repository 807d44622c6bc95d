"""Validation: from a Candidate to a Task, and the audit of finished sets.

Reading order: ``pipeline`` (the stages in order), ``measured_stages`` (V0 to V2), ``observation/``
(a failing call for the statement), ``assembly`` (the row), ``checks/``
(what is checked of a finished row), ``limits`` (time limits), ``audit`` (``etude validate``) and its ``audit_report``.
Nothing here knows a generator.
"""
