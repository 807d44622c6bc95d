"""What did the agent do to the grader and its machine? Processes, escapes, orders to a judge, claimed rewards."""
