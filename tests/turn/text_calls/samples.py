"""One list of texts for every test that cuts them: dialect, text, the text that is said, the calls."""

from tests.turn.text_calls.telling import Told

LOOK = ("look", "{}")
PARIS = ("weather", '{"city":"Paris","days":3}')
COLOGNE = ("weather", '{"city":"Köln 🌧"}')

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEP, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"

CALLS: list[tuple[str, str, Told]] = [
    (
        "hermes",
        '<tool_call>{"name":"weather","arguments":{"city":"Paris","days":3}}</tool_call>',
        Told("", [PARIS]),
    ),
    (
        "hermes",
        'Wait.\n\n<tool_call>\n{"name": "weather", "arguments": {"city":"Köln 🌧"}}\n</tool_call>\n<tool_call>{"name":"look"}</tool_call>\n',
        Told("Wait.\n\n", [COLOGNE, LOOK]),
    ),
    (
        "hermes",
        '<tool_call>{"name":"look","arguments":{"tag":"</tool_call> \\" \\\\"}}</tool_call> Done.',
        Told(" Done.", [("look", '{"tag":"</tool_call> \\" \\\\"}')]),
    ),
    (
        "xml",
        "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        Told("", [PARIS]),
    ),
    ("xml", "ö <function=weather><parameter=city>Köln 🌧</parameter></function>", Told("ö ", [COLOGNE])),
    (
        "xml",
        "Now: <function=look>\n</function>\n</tool_call>\n<function=look></function> So.",
        Told("Now:  So.", [LOOK, LOOK]),
    ),
    (
        "xml",
        "<function=look><parameter=a>\n  two\n\tlines \n\n</parameter><parameter=b> c </parameter></function>",
        Told("", [("look", '{"a":"  two\\n\\tlines \\n","b":" c "}')]),
    ),
    (
        "glm",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        Told("", [PARIS]),
    ),
    (
        "glm",
        "<tool_call>look</tool_call><tool_call>weather<arg_key>city</arg_key><arg_value>Köln 🌧</arg_value></tool_call>",
        Told("", [LOOK, COLOGNE]),
    ),
    ("llama", '[weather(city="Paris", days=3), look()]', Told("", [PARIS, LOOK])),
    ("llama", " \n[weather(city='Köln 🌧')]\n", Told("", [COLOGNE])),
    ("llama", '<|python_tag|>[weather(city="Paris", days=3)]', Told("", [PARIS])),
    (
        "llama",
        '<|python_tag|>{"name": "weather", "parameters": {"city":"Paris","days":3}}; {"name":"look","parameters":{}}\n{"name":"look"}',
        Told("", [PARIS, LOOK, LOOK]),
    ),
    (
        "llama",
        '<|python_tag|>{"name":"look","parameters":{"a":"}\\""}} So.',
        Told(" So.", [("look", '{"a":"}\\""}')]),
    ),
    (
        "mistral",
        'Ok. [TOOL_CALLS] [{"name":"weather","arguments":{"city":"Köln 🌧"}}, {"name":"look","arguments":{}}]',
        Told("Ok. ", [COLOGNE, LOOK]),
    ),
    (
        "mistral",
        '[TOOL_CALLS]weather[ARGS]{"city":"Paris","days":3}[TOOL_CALLS]look[CALL_ID]a1B2c3D4e[ARGS]{}',
        Told("", [PARIS, LOOK]),
    ),
    ("mistral", '[TOOL_CALLS]look{"x": "]}"} Done', Told(" Done", [("look", '{"x": "]}"}')])),
    (
        "deepseek",
        f'{BEGIN}{CALL}function{SEP}weather\n```json\n{{"city":"Köln 🌧"}}\n```{CALL_END}\n{CALL}function{SEP}look\n```json\n{{}}\n```{CALL_END}{END}',
        Told("", [COLOGNE, LOOK]),
    ),
    ("deepseek", f'Hm.{CALL}weather{SEP}{{"city":"Paris","days":3}}{CALL_END}', Told("Hm.", [PARIS])),
    ("deepseek", f"{BEGIN}{CALL}look{SEP}{{}}{CALL_END}{END}", Told("", [LOOK])),
    (
        "fenced",
        'Sure:\n```json\n{"name":"weather","arguments":{"city":"Paris","days":3}}\n```\n',
        Told("Sure:\n", [PARIS]),
    ),
    (
        "fenced",
        '```tool_call\n[{"name":"look","parameters":{}}, {"name":"look","arguments":null}]\n```',
        Told("", [LOOK, LOOK]),
    ),
    (
        "fenced",
        '```\r\n{"name":"look","arguments":{"code":"```py\\n"}}\r\n```',
        Told("", [("look", '{"code":"```py\\n"}')]),
    ),
    (
        "fenced",
        '```python\nf([{}])\n```\n```json\n{"name":"look","arguments":{}}\n```',
        Told("```python\nf([{}])\n```\n", [LOOK]),
    ),
]

TEXTS: list[tuple[str, str]] = [
    ("auto", "Plain words, <b>tags</b>, [links](x) and a < b; ünïcode 🌧."),
    ("auto", '<tool_call>{"name":"unknown","arguments":{}}</tool_call>'),
    ("auto", '<tool_call>{"name":"look","arguments":{</tool_call>'),
    ("auto", '<tool_call>{"name":"look","arguments":[1]}</tool_call>'),
    ("auto", '<tool_call>{"arguments":{}}</tool_call>'),
    ("auto", "<tool_call></tool_call> <tool_call> \n </tool_call>"),
    ("auto", "<tool_call>42</tool_call><tool_call>true</tool_call>"),
    ("auto", '<tool_call>[{"name":"look","arguments":{}}]</tool_call>'),
    ("auto", '<tool_call><tool_call>{"name":"look"}</tool_call></tool_call>'),
    ("hermes", '<tool_call>\n<tool_call>{"name":"look"}</tool_call></tool_call>'),
    ("auto", '<tool_call>{"name":"look",<tool_call>{"name":"look"}</tool_call>'),
    ("auto", "Only a </tool_call> that closes nothing."),
    ("auto", 'Never closed: <tool_call>{"name":"look","arguments":{"a":'),
    ("auto", "Never closed: <tool_call>look"),
    ("auto", "<function=weather><parameter=city>Paris</parameter>"),
    ("auto", "<tool_call>weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"),
    ("auto", '<TOOL_CALL>{"name":"look"}</TOOL_CALL>'),
    ("auto", "half a tag <tool_ca"),
    ("auto", "<function=weather>words<parameter=city>Paris</parameter></function>"),
    ("auto", "<tool_call>weather<arg_key>city</arg_key>Paris</tool_call>"),
    ("auto", '[TOOL_CALLS] and other words, [TOOL_CALLS][{"name":"unknown"}]'),
    ("auto", '[TOOL_CALLS]look[ARGS]{"a": [1}'),
    ("auto", "<|python_tag|>print(1)"),
    ("auto", f"{BEGIN}words{END}"),
    ("auto", f"{BEGIN}{CALL}unknown{SEP}{{}}{CALL_END}{END}"),
    ("auto", '[look()] ```json\n{"name":"look","arguments":{}}\n```'),
    ("llama", "Not at the beginning: [look()]"),
    ("llama", "[look()] and words"),
    ("llama", "[1], [note]"),
    ("llama", "[look(1)]"),
    ("llama", "[look(a=b), look()]"),
    ("llama", "[look(**{})]"),
    ("llama", "["),
    ("fenced", '```json\n{"name":"look"}\n```'),
    ("fenced", '```json\n{"name":"look","arguments":{}}\n{"name":"look","arguments":{}}\n```'),
    ("fenced", '```python\n{"name":"look","arguments":{}}\n```'),
    ("fenced", "```json\n[]\n``` and `x`"),
    ("off", '<tool_call>{"name":"look","arguments":{}}</tool_call>'),
    ("auto", " \n "),
    ("auto", "  indented"),
    ("auto", ""),
]
