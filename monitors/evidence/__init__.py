"""From evidence to Findings: ``calls`` for what tool calls do, ``added_code`` for what added code holds."""
