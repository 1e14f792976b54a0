"""Tools that run on the model's behalf: declaration, arguments, invocation, and the record of their calls.

    declaration    `Tool`, `ServerTool`: a function with its JSON Schema and the facts needed to run it safely
    schema         a Python signature becomes a JSON Schema
    binding        JSON arguments become Python arguments
    invocation     deadlines, threads, errors
    registry       tools by name; loading tools from a user's module
    repeat_guard   detects a model that repeats the same call
    call_record    the port that makes calls safe to resume, with an implementation in memory
    call_runner    answers calls: the record, the guard and the invocation together
    audit          one log record per call: who, what, how long, outcome

The agent loop and the response loop both build on this package; it knows neither of them.
"""
