"""What did the agent do to the grader and its machine? Processes, escapes from the sandbox, orders to a judge, claimed rewards."""
