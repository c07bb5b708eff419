"""A file of requests and answers."""

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


def written(path: Path, *pairs: tuple[str, str]) -> Cassette:
    cassette = Cassette(path)
    for asked, told in pairs:
        cassette.begin(request(asked)).response = answer(told)
    cassette.save()
    return Cassette(path)


def taken(cassette: Cassette, asked: str) -> str | None:
    record = cassette.take(request(asked))
    return None if record is None or record.response is None else record.response["message"]["content"]


def test_equal_requests_are_answered_in_their_order_whatever_is_asked_between(tmp_path: Path) -> None:
    cassette = written(tmp_path / "c.json", ("a", "1"), ("b", "2"), ("a", "3"))
    assert [taken(cassette, asked) for asked in "baaa"] == ["2", "1", "3", None]


def test_it_tells_what_was_not_used(tmp_path: Path) -> None:
    cassette = written(tmp_path / "c.json", ("a", "1"), ("b", "2"))
    taken(cassette, "a")
    assert [record.request for record in cassette.unused] == [request("b")]


def test_the_file_is_one_that_people_can_read_and_compare(tmp_path: Path) -> None:
    written(tmp_path / "deep" / "c.json", ("grüße", "1"))
    assert (tmp_path / "deep" / "c.json").read_text(encoding="utf-8") == (
        '{\n"version": 1,\n"records": [\n{\n "request": {\n  "messages": [\n   {\n    "role": "user",\n'
        '    "content": "grüße"\n   }\n  ]\n },\n "response": {\n  "message": {\n   "content": "1"\n  }\n }\n}\n]\n}\n'
    )
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["c.json"]


def test_text_that_is_no_unicode_is_kept_too(tmp_path: Path) -> None:
    assert taken(written(tmp_path / "c.json", ("a", "\ud800")), "a") == "\ud800"


def test_records_stand_where_they_were_begun_and_only_with_an_answer(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "c.json")
    first, second, third = (cassette.begin(request(one)) for one in "abc")
    third.response = answer("3")
    first.response = answer("1")
    cassette.drop(second)
    cassette.begin(request("d"))
    cassette.save()
    assert [record.request for record in Cassette(cassette.path).records] == [request("a"), request("c")]


def test_to_start_anew_leaves_aside_what_was_in_the_file_and_nothing_else(tmp_path: Path) -> None:
    cassette = written(tmp_path / "c.json", ("a", "1"))
    cassette.load()
    cassette.begin(request("b")).response = answer("2")
    cassette.start_anew()
    cassette.save()
    assert [record.request for record in Cassette(cassette.path).records] == [request("b")]


def test_what_is_missing_is_told_with_what_is_nearest(tmp_path: Path) -> None:
    cassette = written(tmp_path / "c.json", ("a", "1"), ("b", "2"))
    told = str(cassette.missing_error(request("c")))
    assert "most similar of 2 recorded requests differs in messages[0].content: recorded 'a', requested 'c'" in told
    assert "STATEWRIGHT_RECORD=new" in told
    taken(cassette, "a")
    assert "recorded 1 time, and all of these were replayed" in str(cassette.missing_error(request("a")))
    assert "file does not exist" in str(Cassette(tmp_path / "none.json").missing_error(request("a")))
    assert "it is empty" in str(written(tmp_path / "empty.json").missing_error(request("a")))


@pytest.mark.parametrize(
    ("text", "why"),
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
def test_a_file_that_cannot_be_read_says_why_at_once(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=f"c.json.*{why}.*record again"):
        Cassette(path).load()


def test_a_folder_is_no_cassette(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        Cassette(tmp_path).load()


def test_a_file_that_was_edited_by_hand_counts_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    cassette = written(path, ("a", "1"))
    cassette.load()
    data = json.loads(path.read_text())
    data["records"][0]["request"]["messages"][0]["content"] = "b"
    path.write_text(json.dumps(data))
    assert taken(Cassette(path), "b") == "1"


def test_a_record_is_put_into_words_once() -> None:
    record = Record(request("a"), answer("1"))
    assert record.to_json() is record.to_json()
