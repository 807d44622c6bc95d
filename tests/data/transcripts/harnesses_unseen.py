"""A third set in the shape of other harnesses: read once, and nothing was changed after it. Its misses are still there."""

from __future__ import annotations

import json

from oddities import LOGS, fn, gets, log, response, says, tag, user
from telling import tool

log(
    "smolagents", "openai", [], [[0, 0, "traceback"], [2, 0, "invalid_args"], [3, 0, "tool_not_found"]],
    user("go"),
    says("", fn("1", "python_interpreter", {"code": "x = y"})), gets("1", "Error:\nInterpreterError: The variable `y` is not defined.\nNow let's retry: take care not to repeat previous errors! If you have retried several times, try a completely different approach.\n"),
    says("", fn("2", "python_interpreter", {"code": "print('Error: none')"})), gets("2", "Execution logs:\nError: none\n\nLast output from code snippet:\nNone"),
    says("", fn("3", "visit", {"page": "x"})), gets("3", "Error when executing tool visit with arguments {'page': 'x'}: TypeError: visit() got an unexpected keyword argument 'page'"),
    says("", fn("4", "vist", {"url": "x"})), gets("4", "Error:\nUnknown tool vist, should be instead one of: visit, python_interpreter."),
    says("", fn("5", "visit", {"url": "https://example.org"})), gets("5", "# Errors\nTraceback (most recent call last): explained."),
    says("done"),
)
log(
    "cline", "openai", [tool("execute_command", "command:string"), tool("read_file", "path:string"), tool("write_to_file", "path:string content:string")],
    [[0, 0, "file_not_found"], [1, 0, "invalid_args"], [3, 0, "nonzero_exit"]],
    user("go"),
    says("", fn("1", "read_file", {"path": "nope.ts"})), gets("1", "[read_file for 'nope.ts'] Result:\n\nThe tool execution failed with the following error:\n<error>\nError reading file: File not found: /w/nope.ts\n</error>"),
    says("", fn("2", "write_to_file", {"path": "a.ts"})), gets("2", "[write_to_file for 'a.ts'] Result:\n\nThe tool execution failed with the following error:\n<error>\nMissing value for required parameter 'content'. Please retry with complete response.\n</error>"),
    says("", fn("3", "write_to_file", {"path": "a.ts", "content": "throw new Error('x')"})), gets("3", "[write_to_file for 'a.ts'] Result:\n\nThe content was successfully saved to a.ts.\nthrow new Error('x')"),
    says("", fn("4", "execute_command", {"command": "node b.js"})), gets("4", "[execute_command for 'node b.js'] Result:\n\nCommand executed.\nOutput:\nnode:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module '/w/b.js'\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1077:15)\n\nNode.js v18.17.0"),
    says("", fn("5", "execute_command", {"command": "cat notes.txt"})), gets("5", "[execute_command for 'cat notes.txt'] Result:\n\nCommand executed.\nOutput:\nError: Cannot find module"),
    says("done"),
)
log(
    "autogen", "openai", [], [[0, 0, "traceback"], [2, 0, "command_not_found"]],
    user("go"),
    says("", fn("1", "execute_code", {"code": "print(1/0)", "language": "python"})), gets("1", "exitcode: 1 (execution failed)\nCode output: \nTraceback (most recent call last):\n  File \"\", line 1, in <module>\nZeroDivisionError: division by zero\n!"),
    says("", fn("2", "execute_code", {"code": "print('exitcode: 1')", "language": "python"})), gets("2", "exitcode: 0 (execution succeeded)\nCode output: \nexitcode: 1\n"),
    says("", fn("3", "run_in_terminal", {"command": "pyhton a.py"})), gets("3", "zsh: command not found: pyhton"),
    says("", fn("4", "run_in_terminal", {"command": "python a.py"})), gets("4", "hello, no errors"),
    says("done"),
)
log(
    "plain-functions", "hermes", [tool("convert", "amount:number currency:string", "to:string"), tool("book_flight", "from_city:string to_city:string date:string")],
    [[1, 0, "invalid_args"], [2, 0, "nonzero_exit"], [4, 0, "nonzero_exit"]],
    user("go"),
    says(tag("convert", {"amount": 3, "currency": "EUR"})), response('{"amount": 3.3, "currency": "USD"}'),
    says(tag("convert", {"amount": "three", "currency": "EUR"})), response('{"status": 400, "detail": "amount: not a number"}'),
    says(tag("book_flight", {"from_city": "Ulm", "to_city": "Rome", "date": "2025-13-01"})), response('{"status": "failed", "reason": "no such date"}'),
    says(tag("book_flight", {"from_city": "Ulm", "to_city": "Rome", "date": "2025-12-01"})), response('{"status": "confirmed", "note": "previous error resolved"}'),
    says(tag("book_flight", {"from_city": "Ulm", "to_city": "Mars", "date": "2025-12-01"})), response("Sorry, the booking could not be made: unknown city Mars."),
    says("booked"),
)
log(
    "react-notebook", "react", [], [[0, 0, "traceback"], [2, 0, "timeout"], [3, 0, "nonzero_exit"]],
    user("go"),
    says("Thought: a\nAction: jupyter\nAction Input: {\"code\": \"df.head()\"}"), user("Observation: ---------------------------------------------------------------------------\nNameError                                 Traceback (most recent call last)\nCell In[1], line 1\n----> 1 df.head()\n\nNameError: name 'df' is not defined"),
    says("Thought: b\nAction: jupyter\nAction Input: {\"code\": \"print(err)\"}"), user("Observation: NameError: an old one\nand more"),
    says("Thought: c\nAction: jupyter\nAction Input: {\"code\": \"while True: pass\"}"), user("Observation: Execution timed out after 60 seconds."),
    says("Thought: d\nAction: bash\nAction Input: {\"command\": \"rm data\"}"), user("Observation: rm: cannot remove 'data': Is a directory"),
    says("Thought: e\nAction: bash\nAction Input: {\"command\": \"ls\"}"), user("Observation: data\nerror.log"),
    says("Final Answer: done"),
)

for row in LOGS[-5:]:
    row["results"] = "unseen"
