"""Cassettes: files of recorded requests and responses."""

import json
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import ModelError
from statewright.models.recorded.cassette import Cassette, Record


def request(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def answer(text: str) -> dict[str, Any]:
    return {"message": {"content": text}}


def write_cassette(path: Path, *pairs: tuple[str, str]) -> Cassette:
    cassette = Cassette(path)
    for question, text in pairs:
        cassette.begin(request(question)).response = answer(text)
    cassette.save()
    return Cassette(path)


def take_text(cassette: Cassette, question: str) -> str | None:
    record = cassette.take(request(question))
    return None if record is None or record.response is None else record.response["message"]["content"]


def test_equal_requests_are_answered_in_order_whatever_comes_between(tmp_path: Path) -> None:
    cassette = write_cassette(tmp_path / "c.json", ("a", "1"), ("b", "2"), ("a", "3"))
    assert [take_text(cassette, question) for question in "baaa"] == ["2", "1", "3", None]


def test_unused_records_are_listed(tmp_path: Path) -> None:
    cassette = write_cassette(tmp_path / "c.json", ("a", "1"), ("b", "2"))
    take_text(cassette, "a")
    assert [record.request for record in cassette.unused] == [request("b")]


def test_the_file_is_readable_and_has_one_value_per_line(tmp_path: Path) -> None:
    write_cassette(tmp_path / "deep" / "c.json", ("grüße", "1"))
    assert (tmp_path / "deep" / "c.json").read_text(encoding="utf-8") == (
        '{\n"version": 1,\n"records": [\n{\n "request": {\n  "messages": [\n   {\n    "role": "user",\n'
        '    "content": "grüße"\n   }\n  ]\n },\n "response": {\n  "message": {\n   "content": "1"\n  }\n }\n}\n]\n}\n'
    )
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["c.json"]


def test_text_that_is_not_valid_unicode_is_kept(tmp_path: Path) -> None:
    assert take_text(write_cassette(tmp_path / "c.json", ("a", "\ud800")), "a") == "\ud800"


def test_records_keep_the_order_of_requests_and_need_an_answer(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "c.json")
    first, second, third = (cassette.begin(request(text)) for text in "abc")
    third.response = answer("3")
    first.response = answer("1")
    cassette.drop(second)
    cassette.begin(request("d"))
    cassette.save()
    assert [record.request for record in Cassette(cassette.path).records] == [request("a"), request("c")]


def test_a_fresh_start_discards_only_the_records_of_the_file(tmp_path: Path) -> None:
    cassette = write_cassette(tmp_path / "c.json", ("a", "1"))
    cassette.load()
    cassette.begin(request("b")).response = answer("2")
    cassette.start_anew()
    cassette.save()
    assert [record.request for record in Cassette(cassette.path).records] == [request("b")]


def test_the_error_for_a_missing_record_describes_the_most_similar_one(tmp_path: Path) -> None:
    cassette = write_cassette(tmp_path / "c.json", ("a", "1"), ("b", "2"))
    message = str(cassette.missing_error(request("c")))
    assert "most similar of 2 recorded requests differs in messages[0].content: recorded 'a', requested 'c'" in message
    assert "STATEWRIGHT_RECORD=new" in message
    take_text(cassette, "a")
    assert "recorded 1 time, and all of these were replayed" in str(cassette.missing_error(request("a")))
    assert "file does not exist" in str(Cassette(tmp_path / "none.json").missing_error(request("a")))
    assert "it is empty" in str(write_cassette(tmp_path / "empty.json").missing_error(request("a")))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("\xff", "not valid JSON"),
        ("[]", "no version"),
        ('{"version": 2, "records": []}', "version 2, but this release of Statewright reads version 1"),
        ('{"version": 1}', "KeyError"),
        ('{"version": 1, "records": [3]}', "TypeError"),
        ('{"version": 1, "records": [{"request": {}}]}', "neither a response nor an error"),
        ('{"version": 1, "records": [{"request": {}, "response": {"message": "x"}}]}', "TypeError"),
        ('{"version": 1, "records": [{"request": {}, "error": {}}]}', "KeyError"),
        ('{"version": 1, "records": [{"request": {}, "pieces": [{}], "error": {"kind": "x"}}]}', "KeyError"),
    ],
)
def test_unreadable_files_are_rejected_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=f"c.json.*{reason}.*record again"):
        Cassette(path).load()


def test_a_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        Cassette(tmp_path).load()


def test_a_file_edited_by_hand_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    cassette = write_cassette(path, ("a", "1"))
    cassette.load()
    data = json.loads(path.read_text())
    data["records"][0]["request"]["messages"][0]["content"] = "b"
    path.write_text(json.dumps(data))
    assert take_text(Cassette(path), "b") == "1"


def test_a_record_is_encoded_once() -> None:
    record = Record(request("a"), answer("1"))
    assert record.to_json() is record.to_json()
