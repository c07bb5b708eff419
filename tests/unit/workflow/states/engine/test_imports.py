"""Loading a small file loads no library that only other files need."""

import subprocess
import sys

LIBRARIES = ("jinja2", "httpx", "statewright.workflow.states.tools.http_request", "mcp")


def test_loading_and_compiling_a_small_file_imports_no_unneeded_libraries() -> None:
    code = f"""
import sys
from statewright.workflow.states import load_workflow
load_workflow('''
assistants: [{{id: a, system_prompt: p}}]
states: [{{id: s, assistant_id: a, task: "Do {{{{x}}}}", next: {{state_id: end}}}}]
''').compile()
print([name for name in {LIBRARIES!r} if name in sys.modules])
"""
    stdout = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert stdout == "[]\n"
