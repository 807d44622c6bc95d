"""Editors, readers and functions of harnesses that no rule was made for, labelled before the annotator had read them."""

from __future__ import annotations

import json

from rows import rows
from telling import tool

rows(
    "opencode", "openai", [],
    ("read", {"filePath": "/w/utls.ts"}, "File not found: /w/utls.ts\n\nDid you mean one of these?\n/w/utils.ts", "file_not_found"),
    ("edit", {"filePath": "/w/utils.ts", "oldString": "a", "newString": "b"}, "oldString not found in content", "edit_failed"),
    ("edit", {"filePath": "/w/utils.ts", "oldString": "x", "newString": "y"}, "Found multiple matches for oldString. Provide more surrounding lines in oldString to identify the correct match.", "edit_failed"),
    ("edit", {"filePath": "/w/utils.ts", "oldString": "xx", "newString": "y"}, "Edit applied successfully.\n\n<file_diagnostics>\nERROR [3:1] Cannot find name 'y'.\n</file_diagnostics>", None),
    ("grep", {"pattern": "(("}, "ripgrep failed: regex parse error:\n    ((\n     ^\nerror: unclosed group", "invalid_args"),
    ("grep", {"pattern": "TODO"}, "No files found", None),
    ("invalid", {"tool": "serch", "error": "x"}, "The arguments provided to the tool are invalid: Model tried to call unavailable tool 'serch'. Available tools: bash, read, edit, grep.", "tool_not_found"),
    ("webfetch", {"url": "https://example.org/x"}, "Request failed with status code: 404", "nonzero_exit"),
    ("webfetch", {"url": "https://example.org/errors"}, "# Errors\n\nRequest failed with status code: 404 means that the page is gone.\n\nSee also 500.", None),
)
rows(
    "copilot", "openai", [],
    ("read_file", {"startLine": 1}, "ERROR: Your input to the tool was invalid (must have required property 'filePath')\nPlease check your input and try again.", "invalid_args"),
    ("replace_string_in_file", {"filePath": "/w/a.ts", "oldString": "q", "newString": "r"}, "ERROR while calling tool: Could not find matching text to replace. Try making your string to replace more unique or explicit.", "edit_failed"),
    ("replace_string_in_file", {"filePath": "/w/a.ts", "oldString": "qq", "newString": "r"}, "The following files were successfully edited:\n/w/a.ts", None),
    ("read_file", {"filePath": "/w/gone.ts"}, "ERROR while calling tool: cannot open file:///w/gone.ts. Detail: Unable to read file '/w/gone.ts' (Error: Unable to resolve nonexistent file '/w/gone.ts')", "file_not_found"),
    ("get_errors", {"filePaths": ["/w/a.ts"]}, "Showing errors from VS Code.\n/w/a.ts(3,1): error TS2304: Cannot find name 'r'.", None),
    ("fetch_page", {"url": "http://nohost.invalid"}, "Error: getaddrinfo ENOTFOUND nohost.invalid", "transport_error"),
    ("run_subagent", {"prompt": "x"}, "Error: Rate limit exceeded, retry after 20s", "transport_error"),
)
rows(
    "pydantic", "openai", [],
    ("get_user", {"uid": "x"}, "1 validation errors: [\n  {\n    \"type\": \"int_parsing\",\n    \"loc\": [\n      \"uid\"\n    ],\n    \"msg\": \"Input should be a valid integer, unable to parse string as an integer\"\n  }\n]\n\nFix the errors and try again.", "invalid_args"),
    ("get_user", {"uid": 3}, "{\"id\": 3, \"name\": \"Ann\", \"status\": \"failed\", \"last_error\": \"card declined\"}", None),
    ("get_usr", {"uid": 3}, "Unknown tool name: 'get_usr'. Available tools: 'get_user', 'list_users'\n\nFix the errors and try again.", "tool_not_found"),
    ("get_user", {"uid": 99}, "No user with id 99 found, ask for another id.\n\nFix the errors and try again.", "nonzero_exit"),
    ("list_users", {}, "[]", None),
)
rows(
    "mcp-servers", "openai", [],
    ("filesystem_read_text_file", {"path": "/etc/passwd"}, "Error: Access denied - path outside allowed directories: /etc/passwd not in /w", "nonzero_exit"),
    ("filesystem_read_text_file", {"path": "/w/a.txt"}, "Error: ENOENT: no such file or directory, open '/w/a.txt'", "file_not_found"),
    ("filesystem_edit_file", {"path": "/w/b.txt", "edits": []}, "Error: Could not find exact match for edit:\nold text\nof two lines", "edit_failed"),
    ("filesystem_directory_tree", {"path": "/w"}, "[\n  {\"name\": \"error.txt\", \"type\": \"file\"}\n]", None),
    ("git_checkout", {"repo_path": "/w", "branch_name": "dve"}, "Error executing tool git_checkout: pathspec 'dve' did not match any file(s) known to git", "nonzero_exit"),
    ("fetch_url", {"url": "https://example.org/a"}, "Failed to fetch https://example.org/a - status code 503", "transport_error"),
    ("memory_add", {"entity": {}}, "Input validation error: 'entities' is a required property", "invalid_args"),
    ("memory_add", {"entities": "x"}, "Error executing tool memory_add: 1 validation error for memory_addArguments\nentities\n  Input should be a valid list [type=list_type, input_value='x', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.11/v/list_type", "invalid_args"),
    ("memory_serch", {"q": "x"}, "MCP error -32602: Tool memory_serch not found", "tool_not_found"),
    ("memory_search", {"q": "error"}, "{\"entities\": [{\"name\": \"Tool not found\", \"observations\": [\"Error: x\"]}]}", None),
    ("time_now", {"tz": "Ulm"}, "Error processing mcp-server-time query: Invalid timezone: 'No time zone found with key Ulm'", "invalid_args"),
)
rows(
    "crew", "react", [],
    ("Search", {"query": "x"}, "I encountered an error while trying to use the tool. This was the error: Connection refused.\n Tool Search accepts these inputs: query: str", "transport_error"),
    ("Serach", {"query": "x"}, "Action 'Serach' don't exist, these are the only available Actions:\nTool Name: Search\nTool Arguments: {'query': 'str'}", "tool_not_found"),
    ("Search", {"query": "what failed?"}, "Nothing failed in 2020. The error budget was kept.", None),
    ("Read a file's content", {"file_path": "x.md"}, "Error: File not found at path: x.md", "file_not_found"),
    ("Search", {"query": "x"}, "I tried reusing the same input, I must stop using this action input. I'll try something else instead.", "nonzero_exit"),
)
rows(
    "llama-index", "react", [],
    ("divde", {"a": 1, "b": 0}, "Error: No such tool named `divde`.", "tool_not_found"),
    ("divide", {"a": 1, "b": 0}, "Error: division by zero", "nonzero_exit"),
    ("divide", {"a": 1}, "Error: divide() missing 1 required positional argument: 'b'", "invalid_args"),
    ("divide", {"a": 1, "b": 2}, "0.5", None),
    ("lookup", {"key": "err"}, "Error handling is described in chapter 4.", None),
    ("lookup", {"key": "zzz"}, "Encountered error: KeyError: 'zzz'", "nonzero_exit"),
)
rows(
    "agents-sdk", "openai", [tool("get_weather", "city:string", "days:integer"), tool("send_mail", "to:string body:string")],
    ("get_weather", {"city": "Ulm"}, "An error occurred while running the tool. Please try again. Error: upstream returned 502", "transport_error"),
    ("get_weather", {"city": "Ulm"}, "Sunny. No failures of the grid are expected.", None),
    ("send_mail", {"to": "a@b"}, "Error parsing tool arguments: body: Field required", "invalid_args"),
    ("send_mail", {"to": "a@b", "body": "Error: none"}, "Message rejected: a@b is not a valid address", "invalid_args"),
    ("send_mail", {"to": "a@b.org", "body": "Error: none"}, "queued as 81", None),
    ("get_wether", {"city": "Ulm"}, "Tool get_wether not found in agent assistant", "tool_not_found"),
)
rows(
    "tau", "openai", [],
    ("find_user_id_by_email", {"email": "a@b.c"}, "Error: user not found", "nonzero_exit"),
    ("get_order_details", {"order_id": "#W1"}, "{\"order_id\": \"#W1\", \"status\": \"cancelled\", \"cancel_reason\": \"no longer needed\", \"items\": []}", None),
    ("cancel_pending_order", {"order_id": "#W1", "reason": "x"}, "Error: invalid reason", "invalid_args"),
    ("cancel_pending_order", {"order_id": "#W2", "reason": "no longer needed"}, "Error: non-pending order cannot be cancelled", "nonzero_exit"),
    ("modify_order", {"order_id": "#W2"}, "Unknown action modify_order", "tool_not_found"),
    ("calculate", {"expression": "2 +* 3"}, "Error: Invalid characters in expression", "invalid_args"),
    ("think", {"thought": "The error says non-pending; so refuse."}, "", None),
    ("transfer_to_human_agents", {"summary": "failed to cancel"}, "Transfer successful", None),
)
rows(
    "json-results", "openai", [],
    ("list_runs", {"repo": "a"}, '[{"id": 1, "status": "failed"}, {"id": 2, "status": "success"}]', None),
    ("get_run", {"id": 1}, '{"id": 1, "status": "failed", "started": "10:00", "finished": "10:04", "error": "exit code 1 in step test"}', None),
    ("rerun", {"id": 1}, '{"ok": false, "error": {"code": 403, "message": "Resource not accessible by integration"}}', "nonzero_exit"),
    ("rerun", {"id": 2}, '{"ok": true, "run": {"id": 3, "error": null}}', None),
    ("get_run", {"id": 77}, '{"message": "Not Found", "documentation_url": "https://docs.example.org", "status": "404"}', "nonzero_exit"),
    ("create_issue", {"title": ""}, '{"errors": [{"field": "title", "message": "title must not be blank"}]}', "invalid_args"),
    ("create_issue", {"title": "Error: x"}, '{"number": 9, "title": "Error: x", "errors": []}', None),
    ("query", {"sql": "select 1"}, '{"rows": [[1]], "error": "", "warnings": ["deprecated: will fail"]}', None),
    ("query", {"sql": "selec 1"}, '{"rows": null, "error": "near \\"selec\\": syntax error"}', "nonzero_exit"),
    ("validate_config", {"path": "a.toml"}, '{"valid": false, "errors": ["line 3: unknown key"]}', None),
    ("upload", {"path": "a.bin"}, '{"success": false, "reason": "quota exceeded"}', "nonzero_exit"),
    ("get_stats", {}, '{"errors": 14, "failed": 3, "success": 912}', None),
    ("fetch_rates", {}, '{"status": "error", "code": 429, "message": "Too Many Requests"}', "transport_error"),
    ("wait_for", {"id": 3}, '{"status": "timeout", "message": "still running after 60 s"}', "timeout"),
    ("nope", {}, '{"error": {"type": "unknown_tool", "message": "nope"}}', "tool_not_found"),
)
rows(
    "aider-like", "openai", [],
    ("apply_edit", {"path": "a.py", "search": "x", "replace": "y"}, "# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in a.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE", "edit_failed"),
    ("apply_edit", {"path": "a.py", "search": "xx", "replace": "y"}, "Applied edit to a.py", None),
    ("write_file", {"path": "/root/a.py", "content": "x"}, "Permission denied: /root/a.py", "nonzero_exit"),
    ("create_file", {"path": "a.py", "content": "x"}, "File already exists at: a.py. Cannot overwrite files using command `create`.", "edit_failed"),
    ("insert_lines", {"path": "a.py", "line": 900, "text": "x"}, "Invalid `insert_line` parameter: 900. It should be within the range of lines of the file: [0, 12]", "invalid_args"),
    ("edit", {"path": "a.py", "start": 1, "end": 2, "text": "def f(:"}, "Your proposed edit has introduced new syntax error(s). Please read this error message carefully and then retry editing the file.\n\nERRORS:\n- E999 SyntaxError: invalid syntax\n\nThis is how your edit would have looked if applied\n-------------------------------------------------\n1:def f(:\n-------------------------------------------------\n\nYour changes have NOT been applied. Please fix your edit command and try again.", "edit_failed"),
    ("edit", {"path": "b.py", "start": 1, "end": 2, "text": "x"}, "[File: b.py (3 lines total)]\n1:x\n2:raise ValueError('Your changes have NOT been applied')\nFile updated. Please review the changes and make sure they are correct.", None),
    ("delete_file", {"path": "zz.py"}, "Cannot delete zz.py: it does not exist", "file_not_found"),
    ("move_file", {"source": "a", "destination": "b"}, "Destination b is not empty, refusing to overwrite", "nonzero_exit"),
)
rows(
    "readers", "hermes", [],
    ("view", {"path": "/w/src"}, "EISDIR: illegal operation on a directory, read", "file_not_found"),
    ("view", {"path": "/w/a.bin"}, "This tool cannot read binary files. The file appears to be a binary .bin file.", "nonzero_exit"),
    ("view", {"path": "/w/todo.txt"}, "Fix: File not found when path is relative", None),
    ("view", {"path": "/w/todo.txt", "offset": 900}, "Error: offset 900 is beyond the end of the file (12 lines)", "invalid_args"),
    ("view", {"path": "/w/big.csv"}, "File content (31022 tokens) exceeds maximum allowed tokens (25000). Please use offset and limit parameters to read specific portions of the file.", "output_limit"),
    ("list_dir", {"path": "/w/srv"}, "Directory does not exist: /w/srv", "file_not_found"),
    ("list_dir", {"path": "/w"}, "not_found.py\nerrors/", None),
    ("search_files", {"pattern": "x", "path": "/w"}, "No matches found", None),
    ("search_files", {"pattern": "Error:", "path": "/w"}, "a.py:3: print('Error: File not found')", None),
    ("find_definition", {"symbol": "f"}, "error: language server is not running", "nonzero_exit"),
    ("open_url", {"url": "https://example.org"}, "net::ERR_NAME_NOT_RESOLVED at https://example.org", "transport_error"),
    ("open_url", {"url": "https://example.org"}, "Timeout 30000ms exceeded.\nCall log:\n  - navigating to \"https://example.org/\", waiting until \"load\"", "timeout"),
    ("click", {"ref": "e9"}, "Ref e9 not found in the current page snapshot. Try capturing new snapshot.", "nonzero_exit"),
    ("click", {"ref": "e3"}, "Clicked. Page title: 404 Not Found", None),
)
rows(
    "inspect", "openai", [],
    ("python", {"cod": "1"}, "Found 1 validation errors parsing tool input arguments:\n- 'code' is a required property", "invalid_args"),
    ("python", {"code": "print('Tool x not found')"}, "Tool x not found\n", None),
    ("bash", {"cmd": "sleep 999"}, "Command timed out before completing.", "timeout"),
    ("bash", {"cmd": "cat big"}, "The output of your call to bash was too long to be displayed.\nHere is a truncated version:\n<START_TOOL_OUTPUT>\n" + "line\n" * 900 + "<END_TOOL_OUTPUT>", "output_limit"),
    ("submitt", {"answer": "1"}, "Tool submitt not found", "tool_not_found"),
    ("web_search", {"query": '"tool not found"'}, "Tool not found: what it means and how to fix it.", None),
)
rows(
    "autonomous", "openai", [],
    ("read_webpage", {"url": "https://a.example"}, "Command read_webpage returned the following error: HTTPError: 500 Server Error for url: https://a.example", "transport_error"),
    ("browse_site", {"url": "https://a.example"}, "Unknown command 'browse_site'. Please refer to the available command list and only respond in the specified JSON format.", "tool_not_found"),
    ("execute_python_file", {"filename": "gone.py"}, "Error: python: can't open file 'gone.py': [Errno 2] No such file or directory", "nonzero_exit"),
    ("write_to_file", {"filename": "a.txt", "contents": "Error"}, "File written to successfully.", None),
    ("get_balance", {"account": "1"}, "Function call failed: ValueError: account 1 is closed", "nonzero_exit"),
    ("get_balance", {"account": "2"}, "250.00 (1 failed payment)", None),
    ("transfer", {"to": "3", "amount": -1}, "Invalid value for 'amount': -1. Must be greater than 0.", "invalid_args"),
    ("transfer", {"to": "3", "amount": 1000}, "Transaction declined: insufficient funds", "nonzero_exit"),
    ("transfer", {"to": "3", "amount": 10}, "Transferred 10 to account 3. Failed attempts before: 1", None),
)
rows(
    "semantic", "hermes", [tool("lights_set", "id:integer on:boolean"), tool("lights_list")],
    ("lights_set", {"id": 1, "on": "yes"}, "Error: Exception while invoking function: cannot convert 'yes' to boolean", "invalid_args"),
    ("lights_set", {"id": 9, "on": True}, "Error: Function failed. Error: light 9 is unreachable", "nonzero_exit"),
    ("lights_dim", {"id": 1}, "Error: Requested function could not be found.", "tool_not_found"),
    ("lights_list", {}, "1: on, 2: off, 9: unreachable (error)", None),
)
rows(
    "vercel", "openai", [],
    ("weather", {"location": 3}, "Invalid input for tool weather: Type validation failed: Value: {\"location\":3}.\nError message: [\n  {\n    \"code\": \"invalid_type\",\n    \"expected\": \"string\",\n    \"path\": [\"location\"],\n    \"message\": \"Expected string, received number\"\n  }\n]", "invalid_args"),
    ("wether", {"location": "Ulm"}, "Model tried to call unavailable tool 'wether'. Available tools: weather.", "tool_not_found"),
    ("weather", {"location": "Ulm"}, '{"type": "error-text", "value": "station offline"}', "nonzero_exit"),
    ("weather", {"location": "Bonn"}, '{"type": "json", "value": {"temperature": 3, "errors": 0}}', None),
    ("weather", '{"location": "Ulm"', "JSONParseError: JSON parsing failed: Text: {\"location\": \"Ulm\".\nError message: Expected ',' or '}' after property value in JSON at position 18", "malformed_call"),
)
