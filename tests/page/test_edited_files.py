"""Files that are being edited: their problems at their lines, while the last good version runs."""

from __future__ import annotations

from pathlib import Path

from tests.integration.cli_server import serving
from tests.page.browser import Browser, expect, open_tab

FLOW = """
name: relay
assistants:
- {id: one, system_prompt: You answer.}
states:
- id: only
  assistant_id: one
  task: Say it.
  next: {state_id: end}
"""


def test_problems_of_an_edited_file_are_shown_at_their_lines_until_they_are_solved(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "relay.yaml"
    file.write_text(FLOW, encoding="utf-8")
    with serving(tmp_path, "dev", "relay.yaml", "--port", "0") as server, open_tab(browser, server) as tab:
        tab.goto("/ui/start/relay")
        tab.get_by_role("button", name="Start").wait_for()
        file.write_text(FLOW.replace("state_id: end", "state_id: nowhere"), encoding="utf-8")
        tab.locator(".banner").filter(has_text="relay.yaml: 1 problem. The last good version still runs.").wait_for()
        expect(tab.locator(".chat .code .hit")).to_have_text("9  next: {state_id: nowhere}")
        expect(tab.locator(".chat .code .said")).to_contain_text("'nowhere', which is not a state")
        expect(tab.get_by_role("button", name="Start")).to_be_enabled()
        tab.get_by_role("link", name="Show").click()
        tab.wait_for_url("**/ui/problems")
        tab.locator(".code .hit").wait_for()
        file.write_text(FLOW.replace("Say it.", "Say it twice."), encoding="utf-8")
        tab.wait_for_url("**/ui/start/relay")  # it goes back by itself
        expect(tab.locator(".banner")).to_have_count(0)
