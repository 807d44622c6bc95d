"""``etude play``: a user solves a task in the terminal.

``play_command`` holds the command, ``input_lines`` turns what is typed into calls, ``screen`` prints.
"""
