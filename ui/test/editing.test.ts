import { describe, expect, test } from "vitest";
import type { Json, LoadProblem, Reload, Run } from "../src/api/types";
import { filesOf, piecesOf } from "../src/state/reload";
import { lineOf } from "../src/views/run/source-lines";
import { takePiece, type LiveMessage } from "../src/views/run/live-messages";
import { askedIn, talkOf } from "../src/views/start/talk";

const problemAt = (file: string | null, line: number | null): LoadProblem => ({ file, line, column: null, code: "X", message: "is wrong", suggestion: "" });
const text = Array.from({ length: 100 }, (_, index) => `line ${index + 1}`).join("\n") + "\n";

describe("problems of files that are edited", () => {
  test("are put together by file, in the order of their lines; those in no file come first", () => {
    const found: Reload = { watches: true, loadedAt: "x", failedAt: "y", problems: [problemAt("b", 9), problemAt("b", 2), problemAt(null, null), problemAt("a", 1)], texts: { b: "x", a: "y" } };
    expect(filesOf(found).map((file) => [file.name, file.text, file.problems.map((problem) => problem.line)])).toEqual([
      ["", null, [null]],
      ["b", "x", [2, 9]],
      ["a", "y", [1]],
    ]);
  });

  test("are shown with the lines around them, and the rest is folded", () => {
    const pieces = piecesOf(text, [problemAt("a", 50)], 2);
    expect(pieces.map((piece) => ("folded" in piece ? piece.folded : piece.lines.map((line) => line.number)))).toEqual([47, [48, 49, 50, 51, 52], 48]);
    const [, shown] = pieces;
    expect(shown && "lines" in shown ? shown.lines.filter((line) => line.problems.length).map((line) => line.number) : []).toEqual([50]);
  });

  test("on a line that does not exist stand at the last one, and no line is lost", () => {
    const pieces = piecesOf(text, [problemAt("a", 500)], 1);
    const count = pieces.reduce((sum, piece) => sum + ("folded" in piece ? piece.folded : piece.lines.length), 0);
    expect(count).toBe(100);
    const last = pieces[pieces.length - 1];
    expect(last && "lines" in last ? last.lines[last.lines.length - 1]?.problems.length : 0).toBe(1);
    expect(piecesOf(text, [], 2, true)).toHaveLength(1);
  });
});

const piece = (id: string, changes: Json = {}): Json => ({ id, role: "assistant", name: "coder", content: "", tool_calls: [], tool_call_chunks: [], ...(changes as object) });
const take = (...pieces: Json[]): LiveMessage[] => pieces.reduce<LiveMessage[]>(takePiece, []);

describe("pieces of messages", () => {
  test("grow the message that they name", () => {
    const messages = take(piece("a", { content: "I " }), piece("b", { content: "You" }), piece("a", { content: "look" }));
    expect(messages.map((message) => [message.id, message.text])).toEqual([["a", "I look"], ["b", "You"]]);
  });

  test("put the calls of tools together, with arguments once they are complete", () => {
    const chunk = (arguments_: string | null, more: object = {}): Json => piece("a", { tool_call_chunks: [{ index: 0, id: null, name: null, arguments: arguments_, ...more }] });
    const half = take(chunk("", { id: "c1", name: "read" }), chunk('{"path": '));
    expect(half[0]?.calls).toEqual([{ id: "c1", name: "read", arguments: '{"path": ' }]);
    expect(takePiece(half, chunk('"x"}'))[0]?.calls).toEqual([{ id: "c1", name: "read", arguments: { path: "x" } }]);
  });

  test("of no message change nothing", () => {
    const messages = take(piece("a", { content: "x" }));
    for (const odd of [null, "text", 1, [], {}, { id: 1 }] as Json[]) expect(takePiece(messages, odd)).toBe(messages);
  });
});

const runOf = (id: string, createdAt: string, input: Json): Run => ({ id, createdAt, input }) as Run;
const said = (role: string, content: string, id: string | null = null): Json => ({ role, content, id, tool_calls: [] });
const resultOf = (createdAt: string, ...messages: Json[]): Json => ({ agent_name: "coder", created_at: createdAt, messages });

describe("the conversation of a thread", () => {
  const first = runOf("r1", "2026-01-01T00:00:00Z", { input: "one" });
  const second = runOf("r2", "2026-01-01T00:02:00Z", { messages: [said("user", "two")] });

  test("has what people and agents said in the order of time", () => {
    const state = { messages: [said("user", "one"), said("user", "two")], turns: [resultOf("2026-01-01T00:01:00Z", said("assistant", "first", "m1")), resultOf("2026-01-01T00:03:00Z", said("assistant", "second", "m2"))] };
    expect(talkOf(state, [first, second], []).map((message) => message.text)).toEqual(["one", "first", "two", "second"]);
  });

  test("says a question once that is kept with the results", () => {
    const state = { turns: [resultOf("2026-01-01T00:00:01Z", said("user", "one")), resultOf("2026-01-01T00:01:00Z", said("assistant", "first", "m1"))] };
    expect(talkOf(state, [first], []).map((message) => message.text)).toEqual(["one", "first"]);
  });

  test("begins with the question before the state has it, and does not say it twice afterwards", () => {
    const run = runOf("r", "2026-01-01T00:00:00Z", { messages: [said("user", "hi")] });
    expect(talkOf(null, [run], []).map((message) => message.text)).toEqual(["hi"]);
    expect(talkOf({ messages: [said("user", "hi"), said("assistant", "hello")] }, [run], []).map((message) => message.text)).toEqual(["hi", "hello"]);
  });

  test("asks the same again if a person does", () => {
    const state = { messages: [said("user", "hi"), said("assistant", "hello")] };
    const runs = [runOf("a", "2026-01-01T00:00:00Z", { messages: [said("user", "hi")] }), runOf("b", "2026-01-01T00:01:00Z", { messages: [said("user", "hi")] })];
    expect(talkOf(state, runs, []).map((message) => message.text)).toEqual(["hi", "hello", "hi"]);
  });

  test("takes a message from the stream only until the state has it", () => {
    const live = take(piece("m1", { content: "hel" }));
    const run = runOf("r", "2026-01-01T00:00:00Z", { messages: [said("user", "hi")] });
    expect(talkOf(null, [run], live).map((message) => message.text)).toEqual(["hi", "hel"]);
    expect(talkOf({ messages: [said("user", "hi"), said("assistant", "hello", "m1")] }, [run], live).map((message) => message.text)).toEqual(["hi", "hello"]);
  });

  test("shows the tools that were called, though their messages were not heard", () => {
    const run = runOf("r", "2026-01-01T00:00:00Z", { input: "hi" });
    const called = [{ id: "c1", tool: "read", agent: "coder" }];
    expect(talkOf(null, [run], [], called).map((message) => [message.text, message.calls.map((call) => call.name)])).toEqual([["hi", []], ["", ["read"]]]);
    const heard = take(piece("m", { tool_call_chunks: [{ index: 0, id: "c1", name: "read", arguments: "{}" }] }));
    expect(talkOf(null, [run], heard, called)).toHaveLength(2);
  });

  test("knows a question in either form of input", () => {
    expect([{ input: "a" }, { messages: "a" }, { messages: [said("user", "a")] }, {}, null].map((input) => askedIn(runOf("r", "x", input as Json)).map((message) => message.text))).toEqual([["a"], ["a"], ["a"], [], []]);
  });
});

describe("the line of a definition", () => {
  const source = { language: "python" as const, text: "", file: null, lines: { plan: 3, weigh: 9 } };

  test("is that of the chosen node, also of one in a subgraph or one that has not run", () => {
    expect([["plan", null], ["assess:weigh", "plan"], ["weigh.2", null], [null, "plan"]].map((nodes) => lineOf(source, nodes))).toEqual([3, 9, 9, 3]);
  });

  test("is none for a node that the source does not know", () => {
    expect(lineOf(source, ["ship", null])).toBeNull();
  });
});
